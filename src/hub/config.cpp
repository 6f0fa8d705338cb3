#include "hub/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "hub/config_reader.hpp"
#include "hub/rope_config.hpp"
#include "weights/safetensors/fields.hpp"

namespace kvasir::hub {

using namespace weights;

void ConfigReader::set(std::string_view key, Value value) {
  metadata.set(fmt::format("{}.{}", out.family.arch, key), std::move(value));
}

std::optional<std::int64_t> ConfigReader::integer_of(std::initializer_list<const char*> names, std::int64_t low) const {
  for (const char* name : names)
    if (const auto n = fields.integer_if(name, low, kMost)) return n;
  return std::nullopt;
}

std::int64_t ConfigReader::need(std::initializer_list<const char*> names, std::int64_t low) const {
  const auto n = integer_of(names, low);
  if (!n) fields.bad(*names.begin(), "is missing");
  return *n;
}

void ConfigReader::take_number(const char* from, const char* to) {
  if (const auto x = fields.number_if(from)) set(to, *x);
}

void ConfigReader::expect(const char* name, const FolderJson& value) const {
  const FolderJson* given = fields.find(name);
  if (given && *given != value)
    fields.unsupported(name, fmt::format("is {}, expected {}", given->dump().substr(0, 80), value.dump()));
}

void ConfigReader::read() {
  metadata.set("general.architecture", std::string(out.family.arch));
  out.vocabulary = fields.integer("vocab_size", 1, kMost);
  out.tied = fields.flag_if("tie_word_embeddings")
                 .value_or(out.family.arch.starts_with("gemma") || out.family.model_type == "youtu");
  if (out.family.read_all) return out.family.read_all(*this);
  read_usual();
  if (out.family.read) out.family.read(*this);
}

void ConfigReader::read_usual() {
  layers = fields.integer_if("num_hidden_layers", 1, 4096).value_or(0);
  if (layers == 0) layers = fields.integer_if("num_layers", 1, 4096).value_or(0);
  if (layers == 0 && (fields.find("layers_block_type") || fields.find("hybrid_override_pattern")))
    layers = static_cast<std::int64_t>(layer_kinds(*this).size());
  if (layers < 1 || layers > 4096) layers = fields.integer("num_hidden_layers", 1, 4096);
  width = out.width = fields.integer("hidden_size", 1, kMost);
  out.layers = layers;
  out.heads = fields.integer("num_attention_heads", 1, kMost);
  out.kv_heads = fields.integer_if("num_key_value_heads", 1, kMost).value_or(out.heads);
  const auto length = fields.integer_if("model_max_length", 1, kMostContext);
  context = length && !fields.find("max_position_embeddings")
                ? *length
                : fields.integer("max_position_embeddings", 1, kMostContext);
  const bool gemma = out.family.arch.starts_with("gemma");
  head = fields.integer_if("head_dim", 1, kMost).value_or(gemma ? 256 : width / out.heads);
  set("block_count", layers);
  set("embedding_length", width);
  set("feed_forward_length", need({"intermediate_size", "moe_intermediate_size"}, 1));  // the latter: all are experts
  set("attention.head_count", out.heads);
  set("attention.head_count_kv", out.kv_heads);
  set("attention.key_length", head);
  set("attention.value_length", head);
  double eps = 1e-6;
  for (const char* name : {"layer_norm_epsilon", "norm_eps", "rms_norm_eps"})
    eps = fields.number_if(name).value_or(eps);
  set("attention.layer_norm_rms_epsilon", eps);
  for (const char* name : {"layer_norm_eps", "norm_epsilon"}) take_number(name, "attention.layer_norm_epsilon");
  check_activation();
  set("context_length", read_window());
  // Only a part of each head of latent attention is turned, which the sizes of such heads say.
  void (*const latent[])(ConfigReader&) = {read_latent, read_indexed, read_minicpm3, read_kimi_linear,
                                           read_bailing_hybrid};
  const auto turned = std::find(std::begin(latent), std::end(latent), out.family.read) != std::end(latent)
                          ? fields.integer_if("qk_rope_head_dim", 2, kMost)
                          : std::nullopt;
  read_rope(fields, turned.value_or(head), context, metadata, out);
  read_scales();
  check_layers_without_positions();
}

void ConfigReader::check_activation() const {
  auto name = fields.text_if("hidden_activation");
  for (const char* other : {"hidden_act", "activation_function"})
    if (!name) name = fields.text_if(other);
  if (!name || out.family.activation.empty() || *name == out.family.activation) return;
  if (out.family.arch == "gemma" && *name == "gelu") return;  // published so; computed with tanh
  fields.unsupported("hidden_act", fmt::format("is '{}', expected '{}'", *name, out.family.activation));
}

// Returns the context. A window is an architecture's, or the end of what is computed rightly.
std::int64_t ConfigReader::read_window() {
  auto window = fields.integer_if("sliding_window", 0, kMostContext);
  const bool mistral = out.family.model_type == "mistral" || out.family.model_type == "ministral";
  if (!window && mistral && !fields.is_null("sliding_window")) window = 4096;  // the class's own
  if (!window || *window == 0 || fields.flag_if("use_sliding_window") == false) return context;
  if (out.family.arch == "lfm3") return context;  // its reader says which layers have it
  if (out.family.window == Window::kOwn) {
    set("attention.sliding_window", *window);
    read_layer_types();
    return context;
  }
  if (out.family.window == Window::kStated) {
    std::vector<bool> local = stated_layers(*window);
    if (std::find(local.begin(), local.end(), true) == local.end()) return context;
    set("attention.sliding_window", *window);
    set("attention.sliding_window_pattern", std::move(local));
    return context;
  }
  return std::min(context, *window);  // the architecture has none: up to there it hides nothing
}

// Families that may have a window and mostly have none: which layers do, by what their configuration classes say.
std::vector<bool> ConfigReader::stated_layers(std::int64_t window) const {
  const auto n = static_cast<std::size_t>(layers);
  const std::string_view type = out.family.model_type;
  const bool used =
      type == "cwm" || type == "dots1" || type == "ministral" || fields.flag_if("use_sliding_window").value_or(false);
  if (type == "mistral" || type == "mixtral" || type == "starcoder2" ||
      (type == "ministral" && !by_layer("layer_types")))
    return std::vector<bool>(n, window > 0);
  if (!used) return std::vector<bool>(n, false);
  if (type == "qwen3_moe") return std::vector<bool>(n, true);
  std::vector<bool> local(n);
  if (const FolderJson* types = by_layer("layer_types")) {
    for (std::size_t l = 0; l < n; ++l) local[l] = (*types)[l] == "sliding_attention";
    return local;
  }
  const std::int64_t most = fields.integer_if("max_window_layers", 0, kMost).value_or(type == "dots1" ? 62 : 28);
  for (std::int64_t l = 0; l < layers; ++l)
    local[static_cast<std::size_t>(l)] = type == "smollm3"     ? (l + 1) % 4 == 0
                                         : type == "qwen2_moe" ? l % 2 == 0 && l < most
                                                               : l >= most;
  return local;
}

const FolderJson* ConfigReader::by_layer(const char* name) const {
  const FolderJson* list = fields.array(name);
  if (list && std::cmp_not_equal(list->size(), layers))
    fields.bad(name, fmt::format("has {} entries, expected {}", list->size(), layers));
  return list;
}

// Which layers have the window; otherwise the architecture's own pattern.
void ConfigReader::read_layer_types() {
  const FolderJson* types = by_layer("layer_types");
  if (!types) {
    const FolderJson* pattern = fields.find("sliding_window_pattern");
    if (pattern && pattern->is_string()) return read_letters(pattern->get<std::string>());
    if (const auto period = fields.integer_if("sliding_window_pattern", 0, 4096))
      set("attention.sliding_window_pattern", *period);
    return;
  }
  std::vector<bool> local;
  for (const FolderJson& t : *types) {
    if (t != "sliding_attention" && t != "full_attention")
      fields.unsupported("layer_types",
                         fmt::format("holds {}, expected sliding_attention or full_attention", t.dump()));
    local.push_back(t == "sliding_attention");
  }
  set("attention.sliding_window_pattern", std::move(local));
}

// "LLLG", over and over: local layers and one that sees everything.
void ConfigReader::read_letters(const std::string& letters) {
  std::vector<bool> local;
  for (std::int64_t l = 0; l < layers && !letters.empty(); ++l)
    local.push_back(letters[static_cast<std::size_t>(l) % letters.size()] == 'L');
  if (letters.empty() || letters.find_first_not_of("LG") != letters.npos)
    fields.bad("sliding_window_pattern", fmt::format("is '{}', expected letters L and G", letters.substr(0, 40)));
  set("attention.sliding_window_pattern", std::move(local));
}

void ConfigReader::read_scales() {
  // Gemma 3 has none, its predecessors have 30 and 50 where nothing is said.
  for (const char* name : {"final_logit_softcapping", "attn_logit_softcapping"}) {
    take_number(name, name);
    if (fields.is_null(name)) set(name, 0.0);
  }
  if (const auto q = fields.number_if("query_pre_attn_scalar"); q && *q != static_cast<double>(head)) {
    if (!(*q > 0.0)) fields.bad("query_pre_attn_scalar", "expected more than 0");
    set("attention.scale", 1.0 / std::sqrt(*q));
  }
  if (!out.family.arch.starts_with("granite")) return;
  take_number("embedding_multiplier", "embedding_scale");
  take_number("residual_multiplier", "residual_scale");
  take_number("attention_multiplier", "attention.scale");
  take_number("logits_scaling", "logit_scale");
}

void ConfigReader::check_layers_without_positions() const {
  const FolderJson* turned = fields.array("no_rope_layers");
  if (!turned || (out.family.arch != "smollm3" && out.family.arch != "llama4")) return;
  for (std::size_t l = 0; l < turned->size(); ++l)
    if ((*turned)[l] != ((l + 1) % 4 == 0 ? 0 : 1))
      fields.unsupported("no_rope_layers", "is not the pattern of three layers with positions and one without");
}

// Of muP, whose factor of logits is Granite's divisor.
void read_hyperclova(ConfigReader& r) {
  const double scale = r.fields.number_if("logits_scaling").value_or(1.0);
  if (!(scale > 0.0)) r.fields.bad("logits_scaling", "expected more than 0");
  r.set("logit_scale", 1.0 / scale);
}

void read_iquest(ConfigReader& r) {
  r.expect("clip_qkv", nullptr);
  r.expect("use_sliding_window", false);
}

void read_nanbeige(ConfigReader& r) {
  r.set("num_loops", r.integer_of({"num_loops"}, 1).value_or(1));
  r.set("skip_loop_final_norm", r.fields.flag_if("skip_loop_final_norm").value_or(false));
}

// transformers counts one layer for every pass, and says beside it how many there are; published configurations before
// it say the latter alone, as the number of layers.
void read_hrm_text(ConfigReader& r) {
  const std::int64_t of_stack = r.integer_of({"num_layers_per_stack"}, 1).value_or(r.layers);
  const std::int64_t high = r.fields.integer("H_cycles", 1, 4096), low = r.fields.integer("L_cycles", 1, 4096);
  r.out.layers = r.layers = of_stack * high * (low + 1);
  r.out.family.upper_stack = of_stack;
  r.set("block_count", r.layers);
  r.set("hrm.layers_per_stack", of_stack);
  r.set("hrm.h_cycles", high);
  r.set("hrm.l_cycles", low);
  r.set("hrm.prefix_lm", r.fields.flag_if("prefix_lm").value_or(true));
  const auto scale = r.fields.number_if("embedding_scale");
  r.set("embedding_scale", scale ? *scale : 1.0 / r.fields.number_if("initializer_range").value_or(0.02));
}

void read_minicpm(ConfigReader& r) {
  for (const char* name : {"num_experts", "sparse_config"}) r.expect(name, nullptr);
  r.set("embedding_scale", r.fields.number("scale_emb"));
  r.set("residual_scale", r.fields.number("scale_depth") / std::sqrt(static_cast<double>(r.layers)));
  r.set("logit_scale", static_cast<double>(r.width) / r.fields.number("dim_model_base"));
}

// What depends on the length begins behind the context. The width is that of gate and up together.
void read_qwen(ConfigReader& r) {
  r.expect("no_bias", true);
  r.expect("rotary_pct", 1.0);
  if (const auto own = r.integer_of({"kv_channels"}, 1); own && *own != r.head)
    r.fields.unsupported("kv_channels", fmt::format("is {}, expected {}", *own, r.head));
  if (const auto n = r.integer_of({"seq_length"}, 1)) r.set("context_length", std::min(*n, r.context));
}

// Queries of Ministral 3 grow behind the context that it was trained for at first.
void read_ministral(ConfigReader& r) {
  for (const char* name : {"rope_parameters", "rope_scaling"})
    if (const FolderJson* rope = r.fields.object(name))
      if (const auto beta =
              ConfigFields(*rope, r.fields.path(), name + std::string(".")).number_if("llama_4_scaling_beta"))
        r.set("attention.temperature_scale", *beta);
}

Configuration read_config(const FolderJson& config, const std::string& path, Metadata& metadata) {
  const ConfigFields all(config, path);
  const auto type = all.text_if("model_type");
  if (!type) all.bad("model_type", "is missing");
  Configuration out;
  // A model with a tower for pictures has its language model's configuration inside, often with a type of its own. The
  // tower and its projector are left out.
  const FolderJson* inner = all.object("text_config");
  const ConfigFields fields = inner ? ConfigFields(*inner, path, "text_config.") : all;
  const auto own = inner ? fields.text_if("model_type") : std::nullopt;
  const bool assists = type->ends_with("_assistant");  // the inner type is that of its layers
  out.family = family_of(own && !assists ? *own : *type, path);
  ConfigReader reader(fields, metadata, out);
  if (out.family.arch == "nemotron_h") {
    const std::vector<std::string> kinds = layer_kinds(reader);
    if (std::find(kinds.begin(), kinds.end(), "moe") != kinds.end()) out.family.arch = "nemotron_h_moe";
  }
  if (out.family.arch == "gemma3" && fields.flag_if("use_bidirectional_attention").value_or(false)) {
    out.family.arch = "gemma-embedding";
    reader.set("attention.causal", false);
  }
  reader.read();
  if (assists) read_assistant(reader, all);
  if (const FolderJson* tower = out.family.arch.starts_with("qwen3") ? all.object("vision_config") : nullptr)
    if (const FolderJson* deep = ConfigFields(*tower, path, "vision_config.").array("deepstack_visual_indexes"))
      reader.set("n_deepstack_layers", static_cast<std::int64_t>(deep->size()));
  if (const FolderJson* mlx = all.object("quantization")) {
    out.coded = read_mlx_config(*mlx, path);
    for (const char* state : {".ssm.conv_kernel", ".shortconv.l_cache"})
      if (metadata.has(std::string(out.family.arch) + state))
        all.unsupported("quantization", "is MLX's in a model with convolutions, which MLX keeps otherwise");
    return out;
  }
  for (const ConfigFields* of : {&fields, &all}) {
    const FolderJson* quantised = of->object("quantization_config");
    if (!quantised || out.int4 || out.coded) continue;
    const ConfigFields config_of(*quantised, path, "quantization_config.");
    if (config_of.text_if("quant_method") == "mxfp4") continue;  // its tensors say it
    if (auto coded = read_compressed_config(config_of))
      out.coded = std::move(coded);
    else if (const auto f8 = read_f8_config(config_of))
      out.f8 = *f8;
    else
      out.int4 = read_int4_config(config_of);
  }
  return out;
}

}  // namespace kvasir::hub
