#include "hub/rope_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace kvasir::hub {

using namespace weights;

namespace {

class RopeReader {
 public:
  RopeReader(const ConfigFields& config, const Family& family, std::int64_t head, std::int64_t context, Metadata& out)
      : config_(config), family_(family), arch_(family.arch), head_(head), context_(context), out_(out) {}

  void read(Configuration& configuration) {
    const FolderJson* given = config_.object("rope_parameters");
    const std::string name = given ? "rope_parameters" : "rope_scaling";
    if (!given) given = config_.object("rope_scaling");
    const FolderJson none = FolderJson::object();
    const FolderJson* all = given ? given : &none;
    std::string prefix = name + ".";
    // By kind of layer.
    if (const auto full = all->find("full_attention"); full != all->end() && full->is_object()) {
      if (const auto local = all->find("sliding_attention"); local != all->end() && local->is_object())
        read_local(ConfigFields(*local, config_.path(), name + ".sliding_attention."));
      prefix += "full_attention.";
      all = &*full;
    } else if (const auto base = config_.number_if("rope_local_base_freq")) {
      set("rope.freq_base_swa", *base);
    }
    const ConfigFields fields(*all, config_.path(), prefix);
    base_ = 10000.0;
    for (const char* of : {"rotary_emb_base", "rope_theta"}) base_ = config_.number_if(of).value_or(base_);
    base_ = fields.number_if("rope_theta").value_or(base_);
    if (!(base_ > 1.0)) config_.bad("rope_theta", fmt::format("is {}, expected more than 1", base_));
    set("rope.freq_base", base_);
    read_part(fields);
    read_kind(fields, configuration);
    // Of models of pictures, whose text halves are otherwise Qwen 2, 3 and 3.5.
    const FolderJson* const sections = arch_.starts_with("qwen") ? fields.array("mrope_section") : nullptr;
    if (!sections) return;
    std::vector<std::int64_t> pairs;
    for (const FolderJson& n : *sections) {
      if (!n.is_number_integer()) fields.bad("mrope_section", "expected numbers of pairs");
      pairs.push_back(n.get<std::int64_t>());
    }
    set("rope.dimension_sections", pairs);
  }

 private:
  // GGUF has numbers of 32 bits: angles are to be the same.
  void set(std::string_view key, Value value) {
    if (double* x = std::get_if<double>(&value)) *x = static_cast<double>(static_cast<float>(*x));
    out_.set(fmt::format("{}.{}", arch_, key), std::move(value));
  }

  void read_local(const ConfigFields& fields) {
    if (const auto type = fields.text_if("rope_type"); type && *type != "default")
      fields.unsupported("rope_type", fmt::format("is '{}', expected 'default'", *type));
    set("rope.freq_base_swa", fields.number("rope_theta"));
    if (arch_ != "laguna") return;
    const double share = fields.number_if("partial_rotary_factor").value_or(1.0);
    if (!(share > 0.0 && share <= 1.0)) fields.bad("partial_rotary_factor", "expected more than 0 and at most 1");
    set("rope.dimension_count_swa", static_cast<std::int64_t>(share * static_cast<double>(head_)));
  }

  // A part of each head may be left as it is.
  void read_part(const ConfigFields& fields) {
    if (arch_.starts_with("gemma4")) return;
    double share = 1.0;
    if (family_.turned > 0) {
      auto said = fields.number_if("partial_rotary_factor");
      for (const char* name : {"partial_rotary_factor", "rotary_pct"})
        if (!said) said = config_.number_if(name);
      share = said.value_or(family_.turned);
    }
    turned_ = static_cast<std::int64_t>(std::llround(share * static_cast<double>(head_)));
    if (turned_ < 2 || turned_ > head_ || turned_ % 2 != 0)
      config_.bad("partial_rotary_factor", fmt::format("is {}, expected an even part of {}", share, head_));
    set("rope.dimension_count", turned_);
  }

  std::int64_t original(const ConfigFields& fields) const {
    auto n = fields.integer_if("original_max_position_embeddings", 1, std::int64_t{1} << 30);
    if (!n) n = config_.integer_if("original_max_position_embeddings", 1, std::int64_t{1} << 30);
    return n.value_or(context_);
  }

  void read_kind(const ConfigFields& fields, Configuration& configuration) {
    auto type = fields.text_if("rope_type");
    if (!type) type = fields.text_if("type");
    const std::string kind = type.value_or("default");
    if (kind == "default" || kind == "mrope") return;
    if (kind == "dynamic" && fields.find("alpha")) {  // Hunyuan: another base, from the first position on
      const double alpha = fields.number("alpha"), d = static_cast<double>(turned_);
      if (!(alpha > 0.0) || turned_ < 4) fields.bad("alpha", "expected more than 0");
      return set("rope.freq_base", base_ * std::pow(alpha, d / (d - 2.0)));
    }
    if (kind == "dynamic") return set("rope.most_positions", context_);  // up to there it is the plain one
    if (kind == "linear") {
      set("rope.scaling.type", std::string("linear"));
      set("rope.scaling.factor", fields.number("factor"));
    } else if (kind == "yarn") {
      read_yarn(fields);
    } else if (kind == "ntk" && arch_ == "gte") {
      read_ntk(fields, configuration);
    } else if (kind == "llama3") {
      configuration.extras.push_back({"rope_freqs.weight", llama3_factors(fields)});
    } else if (kind == "longrope" || kind == "su") {
      read_long(fields, configuration);
    } else if (kind == "proportional" && arch_ == "lfm3") {
      configuration.extras.push_back({"rope_freqs.weight", proportional_factors(fields, head_)});
    } else {
      if (kind == "proportional" && arch_.starts_with("gemma4")) return;  // its reader says which pairs are turned
      fields.unsupported(type == fields.text_if("rope_type") ? "rope_type" : "type",
                         fmt::format("is '{}', expected default, linear, dynamic, yarn, llama3 or longrope", kind));
    }
  }

  bool is_deepseek() const { return arch_ == "deepseek2" || arch_ == "deepseek32" || arch_ == "glm-dsa"; }

  void read_yarn(const ConfigFields& fields) {
    const double factor = fields.number("factor");
    set("rope.scaling.type", std::string("yarn"));
    set("rope.scaling.factor", factor);
    set("rope.scaling.original_context_length", original(fields));
    set("rope.scaling.yarn_beta_fast", fields.number_if("beta_fast").value_or(32.0));
    set("rope.scaling.yarn_beta_slow", fields.number_if("beta_slow").value_or(1.0));
    if (const auto whole = fields.flag_if("truncate"); whole || arch_ == "gpt-oss")
      set("rope.scaling.yarn_truncate", whole.value_or(true));
    const double growth = factor > 1.0 ? 0.1 * std::log(factor) : 0.0;
    // Magnitudes are 1 + 0.1 ln(factor) unless the file says otherwise.
    auto magnitude = fields.number_if("attention_factor");
    const double part = fields.number_if("mscale").value_or(0.0),
                 all = fields.number_if("mscale_all_dim").value_or(0.0);
    if (part != 0.0 || all != 0.0) {
      const bool latent = is_deepseek();
      if (!latent && arch_ != "mistral3") fields.unsupported("mscale", "is not supported in this model type");
      if (all != 0.0) set("rope.scaling.yarn_log_multiplier", latent ? 0.1 * all : all);
      if (!magnitude && part != 0.0 && all != 0.0) magnitude = (1.0 + part * growth) / (1.0 + all * growth);
    }
    // With a multiplier a magnitude is by itself 1 (DeepSeek), or by that much less (Ministral).
    const double own = all == 0.0 ? 1.0 + growth : is_deepseek() ? 1.0 : (1.0 + growth) / (1.0 + all * growth);
    if (magnitude) set("rope.scaling.attn_factor", *magnitude / own);
  }

  // Fixed NTK scaling as GTE's authors compute it (kexue.fm/archives/9706): the base times the factor, and every
  // frequency divided by factor^(2 / d).
  void read_ntk(const ConfigFields& fields, Configuration& configuration) {
    const double factor = fields.number("factor"), d = static_cast<double>(turned_);
    if (!(factor > 0.0)) fields.bad("factor", "expected more than 0");
    if (fields.find("mixed_b")) fields.unsupported("mixed_b", "is not computed");
    set("rope.freq_base", base_ * factor);
    const std::vector<float> divisors(static_cast<std::size_t>(turned_ / 2),
                                      static_cast<float>(std::pow(factor, 2.0 / d)));
    configuration.extras.push_back({"rope_freqs.weight", divisors});
  }

  // Low frequencies are divided by `factor`, high ones kept, with a ramp between: transformers'
  // _compute_llama3_parameters.
  std::vector<float> llama3_factors(const ConfigFields& fields) const {
    const double factor = fields.number("factor"), low = fields.number("low_freq_factor"),
                 high = fields.number("high_freq_factor"), length = static_cast<double>(original(fields));
    if (!(factor > 0.0)) fields.bad("factor", "expected more than 0");
    if (!(low > 0.0 && high > low)) fields.bad("high_freq_factor", "expected more than low_freq_factor and 0");
    std::vector<float> out;
    for (std::int64_t i = 0; i < turned_ / 2; ++i) {
      const double wave = 2 * M_PI * std::pow(base_, 2.0 * static_cast<double>(i) / static_cast<double>(turned_));
      double divisor = factor;
      if (wave < length / high) {
        divisor = 1.0;
      } else if (wave <= length / low) {
        const double smooth = (length / wave - low) / (high - low);
        divisor = 1.0 / ((1.0 - smooth) / factor + smooth);
      }
      out.push_back(static_cast<float>(divisor));
    }
    return out;
  }

  void read_long(const ConfigFields& fields, Configuration& configuration) {
    const auto length = static_cast<double>(original(fields));
    set("rope.scaling.type", std::string("longrope"));
    set("rope.scaling.original_context_length", original(fields));
    for (const auto& [from, to] :
         {std::pair{"short_factor", "rope_factors_short.weight"}, {"long_factor", "rope_factors_long.weight"}}) {
      std::vector<float> factors = fields.floats(from);
      if (std::cmp_not_equal(factors.size(), turned_ / 2))
        fields.bad(from, fmt::format("has {} numbers, expected {}", factors.size(), turned_ / 2));
      configuration.extras.push_back({to, std::move(factors)});
    }
    const double grown = static_cast<double>(context_) / length;
    const double magnitude = grown > 1.0 ? std::sqrt(1.0 + std::log(grown) / std::log(length)) : 1.0;
    if (arch_ == "phimoe") {
      const double own = fields.number("short_mscale");
      if (fields.number("long_mscale") != own) fields.unsupported("long_mscale", "is not short_mscale");
      return set("rope.scaling.attn_factor", own);
    }
    set("rope.scaling.attn_factor", fields.number_if("attention_factor").value_or(magnitude));
  }

  const ConfigFields& config_;
  const Family& family_;
  const std::string_view arch_;
  const std::int64_t head_, context_;
  Metadata& out_;
  double base_ = 0;
  std::int64_t turned_ = 0;  // elements of a head
};

}  // namespace

std::vector<float> proportional_factors(const ConfigFields& rope, std::int64_t head) {
  const double share = rope.number_if("partial_rotary_factor").value_or(1.0);
  const double factor = rope.number_if("factor").value_or(1.0);
  if (!(share > 0.0 && share <= 1.0)) rope.bad("partial_rotary_factor", "expected more than 0 and at most 1");
  if (!(factor > 0.0)) rope.bad("factor", "expected more than 0");
  const auto turned = static_cast<std::int64_t>(share * static_cast<double>(head) / 2.0);
  std::vector<float> factors;
  for (std::int64_t i = 0; i < head / 2; ++i) factors.push_back(i < turned ? static_cast<float>(factor) : 1e30f);
  return factors;
}

void read_rope(const ConfigFields& config, std::int64_t head, std::int64_t context, Metadata& metadata,
               Configuration& out) {
  RopeReader(config, out.family, head, context, metadata).read(out);
}

}  // namespace kvasir::hub
