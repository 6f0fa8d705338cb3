#include "weights/safetensors/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "weights/safetensors/fields.hpp"
#include "weights/safetensors/rope_config.hpp"

namespace kvasir::weights {
namespace {

constexpr std::int64_t kMost = 1 << 24;  // no width, head count or layer count comes near it

class ConfigReader {
 public:
  ConfigReader(const ConfigFields& fields, const Family& family, Metadata& out)
      : fields_(fields), family_(family), out_(out) {}

  void read(Configuration& c) {
    out_.set("general.architecture", std::string(family_.arch));
    layers_ = fields_.integer("num_hidden_layers", 1, 4096);
    const std::int64_t width = fields_.integer("hidden_size", 1, kMost);
    c.heads = fields_.integer("num_attention_heads", 1, kMost);
    c.kv_heads = fields_.integer_if("num_key_value_heads", 1, kMost).value_or(c.heads);
    c.vocabulary = fields_.integer("vocab_size", 1, kMost);
    c.tied = fields_.flag_if("tie_word_embeddings").value_or(family_.one_more);
    const std::int64_t context = fields_.integer("max_position_embeddings", 1, std::int64_t{1} << 30);
    const std::int64_t head =
        fields_.integer_if("head_dim", 1, kMost).value_or(family_.one_more ? 256 : width / c.heads);
    set("block_count", layers_);
    set("embedding_length", width);
    set("feed_forward_length", fields_.integer("intermediate_size", 1, kMost));
    set("attention.head_count", c.heads);
    set("attention.head_count_kv", c.kv_heads);
    set("attention.key_length", head);
    set("attention.value_length", head);
    set("attention.layer_norm_rms_epsilon", fields_.number_if("rms_norm_eps").value_or(1e-6));
    check_activation();
    set("context_length", read_window(context));
    read_rope(fields_, family_.arch, head, context, out_, c);
    read_scales(head);
    check_layers_without_positions();
  }

 private:
  void set(std::string_view key, Value value) { out_.set(fmt::format("{}.{}", family_.arch, key), std::move(value)); }

  void check_activation() const {
    auto name = fields_.text_if("hidden_activation");
    if (!name) name = fields_.text_if("hidden_act");
    if (!name || *name == family_.activation) return;
    if (family_.arch == "gemma" && *name == "gelu") return;  // published so; computed with tanh
    fields_.unsupported("hidden_act", fmt::format("is '{}', expected '{}'", *name, family_.activation));
  }

  // Returns the context. A window is an architecture's, or the end of what is computed rightly.
  std::int64_t read_window(std::int64_t context) {
    const auto window = fields_.integer_if("sliding_window", 1, std::int64_t{1} << 30);
    if (!window || fields_.flag_if("use_sliding_window") == false) return context;
    if (family_.post_norms || family_.arch == "phi3") {
      set("attention.sliding_window", *window);
      read_layer_types();
      return context;
    }
    if (const FolderJson* types = fields_.array("layer_types");
        types &&
        std::none_of(types->begin(), types->end(), [](const FolderJson& t) { return t == "sliding_attention"; }))
      return context;
    return std::min(context, *window);  // the architecture has none: up to there it hides nothing
  }

  // Which layers have the window; otherwise the architecture's own pattern.
  void read_layer_types() {
    const FolderJson* types = fields_.array("layer_types");
    if (!types) {
      if (const auto period = fields_.integer_if("sliding_window_pattern", 0, 4096))
        set("attention.sliding_window_pattern", *period);
      return;
    }
    if (std::cmp_not_equal(types->size(), layers_))
      fields_.bad("layer_types", fmt::format("has {} entries, expected {}", types->size(), layers_));
    std::vector<bool> local;
    for (const FolderJson& t : *types) {
      if (t != "sliding_attention" && t != "full_attention")
        fields_.unsupported("layer_types",
                            fmt::format("holds {}, expected sliding_attention or full_attention", t.dump()));
      local.push_back(t == "sliding_attention");
    }
    set("attention.sliding_window_pattern", std::move(local));
  }

  void read_scales(std::int64_t head) {
    const auto take = [&](const char* from, const char* to) {
      if (const auto x = fields_.number_if(from)) set(to, *x);
    };
    // Gemma 3 has none, its predecessors have 30 and 50 where nothing is said.
    take("final_logit_softcapping", "final_logit_softcapping");
    take("attn_logit_softcapping", "attn_logit_softcapping");
    if (const auto q = fields_.number_if("query_pre_attn_scalar"); q && *q != static_cast<double>(head)) {
      if (!(*q > 0.0)) fields_.bad("query_pre_attn_scalar", "expected more than 0");
      set("attention.scale", 1.0 / std::sqrt(*q));
    }
    if (family_.arch != "granite") return;
    take("embedding_multiplier", "embedding_scale");
    take("residual_multiplier", "residual_scale");
    take("attention_multiplier", "attention.scale");
    take("logits_scaling", "logit_scale");
  }

  void check_layers_without_positions() const {
    const FolderJson* turned = fields_.array("no_rope_layers");
    if (!turned || family_.arch != "smollm3") return;
    for (std::size_t l = 0; l < turned->size(); ++l)
      if ((*turned)[l] != ((l + 1) % 4 == 0 ? 0 : 1))
        fields_.unsupported("no_rope_layers", "is not the pattern of three layers with positions and one without");
  }

  const ConfigFields& fields_;
  const Family& family_;
  Metadata& out_;
  std::int64_t layers_ = 0;
};

}  // namespace

Configuration read_config(const FolderJson& config, const std::string& path, Metadata& metadata) {
  const ConfigFields all(config, path);
  const auto type = all.text_if("model_type");
  if (!type) all.bad("model_type", "is missing");
  Configuration out;
  out.family = &family_of(*type, path);
  // A model with a tower for pictures has its language model's configuration inside.
  const FolderJson* inner = all.object("text_config");
  const ConfigFields fields = inner ? ConfigFields(*inner, path, "text_config.") : all;
  ConfigReader(fields, *out.family, metadata).read(out);
  for (const ConfigFields* of : {&fields, &all}) {
    const FolderJson* quantised = of->object("quantization_config");
    if (!quantised || out.int4) continue;
    const ConfigFields config_of(*quantised, path, "quantization_config.");
    if (const auto f8 = read_f8_config(config_of))
      out.f8 = *f8;
    else
      out.int4 = read_int4_config(config_of);
  }
  return out;
}

}  // namespace kvasir::weights
