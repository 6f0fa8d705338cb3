// Models whose layers have states in place of keys and values.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hub/config_reader.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

// KV heads by layer: 0 where it is no attention but one of `others`.
std::vector<std::int64_t> attends(const ConfigReader& r, const std::vector<std::string>& kinds,
                                  std::initializer_list<std::string_view> others) {
  std::vector<std::int64_t> out;
  for (const std::string& kind : kinds) {
    if (kind != "full_attention" && std::find(others.begin(), others.end(), kind) == others.end()) {
      std::string known = "full_attention";
      for (const std::string_view o : others) known += fmt::format(", {}", o);
      r.fields.unsupported("layer_types", fmt::format("holds '{}', expected one of {}", kind.substr(0, 40), known));
    }
    out.push_back(kind == "full_attention" ? r.out.kv_heads : 0);
  }
  return out;
}

// Mamba-2; models name its sizes differently.
void read_mamba(ConfigReader& r) {
  const std::int64_t heads = r.need({"mamba_n_heads", "mamba_num_heads", "num_heads"}, 1);
  const std::int64_t size = r.need({"mamba_d_head", "mamba_head_dim", "head_dim"}, 1);
  r.out.norm_groups = r.need({"mamba_n_groups", "n_groups"}, 1);
  r.set("ssm.conv_kernel", r.need({"mamba_d_conv", "conv_kernel"}, 1));
  r.set("ssm.group_count", r.out.norm_groups);
  r.set("ssm.time_step_rank", heads);
  r.set("ssm.state_size", r.need({"mamba_d_state", "ssm_state_size", "state_size"}, 1));
  r.set("ssm.inner_size", heads * size);
  if (const FolderJson* limits = r.fields.array("time_step_limit")) {
    const bool none = limits->size() == 2 && (*limits)[0].is_number() && (*limits)[0].get<double>() == 0.0 &&
                      (!(*limits)[1].is_number() || (*limits)[1].get<double>() > 1e30);
    if (!none) r.fields.unsupported("time_step_limit", "cuts steps, expected 0 and infinity");
  }
}

}  // namespace

std::vector<std::string> layer_kinds(const ConfigReader& r) {
  std::vector<std::string> kinds;
  const FolderJson* types = r.fields.array("layers_block_type");
  if (!types) types = r.fields.array("layer_types");
  if (types) {
    for (const FolderJson& t : *types) {
      const std::string kind = t.is_string() ? t.get<std::string>() : "";
      kinds.push_back(kind == "attention" || kind == "indexed_attention" ? "full_attention"
                      : kind == "mamba"                                  ? "linear_attention"
                                                                         : kind);
    }
  } else if (const auto pattern = r.fields.text_if("hybrid_override_pattern")) {
    for (const char c : *pattern)
      kinds.emplace_back(c == 'M'   ? "linear_attention"
                         : c == '*' ? "full_attention"
                         : c == '-' ? "mlp"
                         : c == 'E' ? "moe"
                                    : std::string(1, c));
  } else if (const FolderJson* full = r.fields.array("full_attn_idxs")) {
    kinds.assign(static_cast<std::size_t>(r.layers), "conv");
    for (const FolderJson& i : *full) {
      if (!i.is_number_unsigned() || i.get<std::uint64_t>() >= kinds.size())
        r.fields.bad("full_attn_idxs",
                     fmt::format("holds {}, expected layers below {}", i.dump().substr(0, 40), r.layers));
      kinds[i.get<std::size_t>()] = "full_attention";
    }
  } else {
    r.fields.bad("layer_types", "is missing");
  }
  if (r.layers > 0 && std::cmp_not_equal(kinds.size(), r.layers))
    r.fields.bad("layer_types", fmt::format("has {} entries, expected {}", kinds.size(), r.layers));
  return kinds;
}

// Qwen's gated DeltaNet.
void read_delta(ConfigReader& r) {
  const std::int64_t keys = r.need({"linear_num_key_heads"}, 1), heads = r.need({"linear_num_value_heads"}, 1);
  const std::int64_t key = r.need({"linear_key_head_dim"}, 1), value = r.need({"linear_value_head_dim"}, 1);
  if (heads % keys != 0)
    r.fields.bad("linear_num_value_heads", fmt::format("is {}, expected a multiple of the key heads, {}", heads, keys));
  r.set("ssm.conv_kernel", r.need({"linear_conv_kernel_dim"}, 1));
  r.set("ssm.group_count", keys);
  r.set("ssm.time_step_rank", heads);
  r.set("ssm.state_size", key);
  r.set("ssm.inner_size", heads * value);
  if (r.out.family.arch.starts_with("qwen35") || r.out.family.arch == "qwen4exp")
    r.out.tiled = {keys, heads, value, 2 * keys * key};
  if (r.fields.find("layer_types")) {
    std::vector<bool> recurrent;
    for (const std::int64_t n : attends(r, layer_kinds(r), {"linear_attention"})) recurrent.push_back(n == 0);
    r.set("attention.recurrent_layers", std::move(recurrent));
  } else {
    r.set("full_attention_interval", r.integer_of({"full_attention_interval"}, 1).value_or(4));
  }
  read_experts(r);
}

// Qwen 3.8 Flash-Next. What hashes are made with is in tensors.
void read_qwen4exp(ConfigReader& r) {
  r.expect("attention_bias", false);
  r.expect("indexer_kv_heads", 1);
  read_delta(r);
  r.set("ssm.output_gate", r.fields.text_if("output_gate_type").value_or("silu"));
  r.set("hyper_connection.count", r.integer_of({"hc_count"}, 2).value_or(4));
  r.set("hyper_connection.low_rank", r.integer_of({"hc_lowrank"}, 1).value_or(320));
  r.set("attention.indexer.head_count", r.need({"indexer_n_heads"}, 1));
  r.set("attention.indexer.key_length", r.need({"indexer_head_dim"}, 1));
  r.set("attention.indexer.top_k", r.need({"indexer_budget"}, 1));
  r.set("attention.compress_ratios", r.need({"indexer_compress_ratio"}, 1));
  const FolderJson* layers = r.fields.array("ple_layer_ids");
  if (!layers || layers->empty()) return;
  std::vector<std::int64_t> from_0;
  for (const FolderJson& l : *layers) {
    if (!l.is_number_integer() || l.get<std::int64_t>() < 1 || l.get<std::int64_t>() > r.layers)
      r.fields.bad("ple_layer_ids",
                   fmt::format("holds {}, expected layers from 1 to {}", l.dump().substr(0, 40), r.layers));
    from_0.push_back(l.get<std::int64_t>() - 1);
  }
  if (from_0.size() > 1)
    r.fields.unsupported("ple_layer_ids", fmt::format("names {} layers, expected at most one", from_0.size()));
  const std::int64_t longest = r.integer_of({"ngram_size"}, 2).value_or(3);
  const std::int64_t heads = r.integer_of({"heads_per_ngram"}, 1).value_or(8);
  const std::int64_t width = r.integer_of({"ple_embed_dim"}, 1).value_or(r.width);
  if (width % ((longest - 1) * heads) != 0)
    r.fields.bad("ple_embed_dim",
                 fmt::format("is {}, expected a multiple of the heads, {}", width, (longest - 1) * heads));
  r.set("ple.layers", std::move(from_0));
  r.set("ple.ngram_size", longest);
  r.set("ple.heads_per_ngram", heads);
  r.set("ple.conv_kernel", r.integer_of({"ple_conv_kernel_size"}, 1).value_or(4));
  r.set("embedding_length_per_layer_input", width / ((longest - 1) * heads));
  // The first of several, as transformers takes it.
  const FolderJson* end = r.fields.find("eos_token_id");
  if (end && end->is_array() && !end->empty()) end = &end->front();
  if (!end || !end->is_number_integer() || end->get<std::int64_t>() < 0)
    r.fields.bad("eos_token_id", "is no token, which the n-grams of ple_layer_ids end behind");
  r.set("ple.eos_token_id", end->get<std::int64_t>());
}

// OLMo hybrid: as many key heads as value heads. Released ones have no positions.
void read_olmo_hybrid(ConfigReader& r) {
  read_delta(r);
  if (r.need({"linear_num_key_heads"}, 1) != r.need({"linear_num_value_heads"}, 1))
    r.fields.unsupported("linear_num_value_heads", "is not the number of key heads");
  r.set("ssm.negative", r.fields.flag_if("linear_allow_neg_eigval").value_or(true));
  const FolderJson* rope = r.fields.object("rope_parameters");
  const bool turned = rope && ConfigFields(*rope, r.fields.path(), "rope_parameters.").number_if("rope_theta");
  r.set("attention.rotated", turned || r.fields.number_if("rope_theta"));
}

// LFM2's short convolutions.
void read_lfm2(ConfigReader& r) {
  r.expect("conv_bias", false);
  r.set("shortconv.l_cache", r.need({"conv_L_cache"}, 1));
  r.set("attention.head_count_kv", attends(r, layer_kinds(r), {"conv"}));
  read_experts(r);
  if (r.fields.flag_if("block_auto_adjust_ff_dim").value_or(false)) {
    auto width = r.need({"block_ff_dim", "intermediate_size"}, 1) * 2 / 3;
    if (const auto more = r.fields.number_if("block_ffn_dim_multiplier"))
      width = static_cast<std::int64_t>(*more * static_cast<double>(width));
    const std::int64_t whole = r.integer_of({"block_multiple_of"}, 1).value_or(256);
    r.set("feed_forward_length", (width + whole - 1) / whole * whole);
  }
}

// LFM3: attention of two kinds, each with RoPE of its own.
void read_lfm3(ConfigReader& r) {
  r.expect("conv_bias", false);
  r.out.tied = r.fields.flag_if("tie_word_embeddings").value_or(true);
  r.set("shortconv.l_cache", r.need({"conv_L_cache"}, 1));
  std::vector<std::string> kinds = layer_kinds(r);
  std::vector<bool> local;
  for (std::string& kind : kinds) {
    local.push_back(kind == "sliding_attention");
    if (local.back()) kind = "full_attention";
  }
  const FolderJson* rope = r.fields.object("rope_parameters");
  const auto check_rope = [&](const char* kind) {
    if (!rope || !rope->contains(kind) || !(*rope)[kind].is_object())
      r.fields.bad("rope_parameters", fmt::format("has no '{}', which is the class's own there", kind));
  };
  check_rope("full_attention");
  if (std::find(local.begin(), local.end(), true) != local.end()) {
    check_rope("sliding_attention");
    r.set("attention.sliding_window", r.need({"sliding_window"}, 1));
    r.set("attention.sliding_window_pattern", std::move(local));
  }
  r.set("attention.head_count_kv", attends(r, kinds, {"conv"}));
  r.set("sandwich_norms", r.fields.flag_if("use_sandwich_norm").value_or(true));
  r.set("attention.gated", r.fields.flag_if("use_attention_gate").value_or(true));
}

void read_granite_hybrid(ConfigReader& r) {
  const std::vector<std::string> kinds = layer_kinds(r);
  r.set("attention.head_count_kv", attends(r, kinds, {"linear_attention"}));
  if (std::find(kinds.begin(), kinds.end(), "linear_attention") != kinds.end()) read_mamba(r);
  r.set("rope.scaling.finetuned", r.fields.text_if("position_embedding_type") == "rope");
  read_experts(r);
  if (r.out.experts > 0) return;
  r.out.family.names = granite_without_experts();
  r.set("feed_forward_length", r.need({"shared_intermediate_size"}, 1));
}

// Published configurations have attn_rotary_emb, which is elements of a head.
void read_bamba(ConfigReader& r) {
  for (const char* name : {"mamba_proj_bias", "mlp_bias"}) r.expect(name, false);
  std::vector<std::string> kinds(static_cast<std::size_t>(r.layers), "linear_attention");
  const FolderJson* full = r.fields.array("attn_layer_indices");
  if (r.fields.find("layer_types") || r.fields.find("layers_block_type")) {
    kinds = layer_kinds(r);
  } else if (full) {
    for (const FolderJson& i : *full) {
      if (!i.is_number_unsigned() || i.get<std::uint64_t>() >= kinds.size())
        r.fields.bad("attn_layer_indices",
                     fmt::format("holds {}, expected layers below {}", i.dump().substr(0, 40), r.layers));
      kinds[i.get<std::size_t>()] = "full_attention";
    }
  }
  r.set("attention.head_count_kv", attends(r, kinds, {"linear_attention"}));
  r.set("rope.scaling.finetuned", true);
  std::int64_t turned = r.integer_of({"attn_rotary_emb"}, 2).value_or(r.head / 2);
  if (const FolderJson* rope = r.fields.object("rope_parameters"))
    if (const auto part = ConfigFields(*rope, r.fields.path(), "rope_parameters.").number_if("partial_rotary_factor"))
      turned = static_cast<std::int64_t>(*part * static_cast<double>(r.head));
  if (turned < 2 || turned > r.head || turned % 2 != 0)
    r.fields.bad("attn_rotary_emb", fmt::format("is {}, expected an even number of at most {}", turned, r.head));
  r.set("rope.dimension_count", turned);
  read_mamba(r);
}

void read_nemotron_h(ConfigReader& r) {
  r.expect("mlp_hidden_act", "relu2");
  const std::vector<std::string> kinds = layer_kinds(r);
  const std::int64_t width = r.need({"intermediate_size"}, 1);
  std::vector<std::int64_t> ffn;
  for (const std::string& kind : kinds)
    ffn.push_back(kind == "mlp" ? width : kind == "moe" ? r.need({"moe_intermediate_size"}, 1) : 0);
  r.set("attention.head_count_kv", attends(r, kinds, {"linear_attention", "mlp", "moe"}));
  r.set("feed_forward_length", ffn);
  if (const auto narrow = r.integer_of({"moe_latent_size"}, 1)) r.set("moe_latent_size", *narrow);
  if (r.out.family.arch == "nemotron_h_moe") read_experts(r);
  read_mamba(r);
}

// Its many multipliers become part of the matrices, as in GGUF, but for those of the embedding and of the logits.
void read_falcon_h1(ConfigReader& r) {
  for (const char* name : {"attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias"}) r.expect(name, false);
  if (r.fields.flag_if("mamba_rms_norm").value_or(true)) r.expect("mamba_norm_before_gate", false);
  read_mamba(r);
  const auto of = [&](const char* name) { return static_cast<float>(r.fields.number_if(name).value_or(1.0)); };
  const auto list = [&](const char* name, std::size_t n) {
    if (!r.fields.find(name)) return std::vector<float>(n, 1.0f);
    std::vector<float> x = r.fields.floats(name);
    if (x.size() != n) r.fields.bad(name, fmt::format("has {} numbers, expected {}", x.size(), n));
    return x;
  };
  const std::int64_t all = ConfigReader::kMost;
  auto& f = r.out.factors;
  const float in = of("attention_in_multiplier"), ssm = of("ssm_in_multiplier");
  const std::vector<float> mlp = list("mlp_multipliers", 2), parts = list("ssm_multipliers", 5);
  f["attn_q"] = f["attn_v"] = {{all, in}};
  f["attn_k"] = {{all, in * of("key_multiplier")}};
  f["attn_output"] = {{all, of("attention_out_multiplier")}};
  f["ssm_out"] = {{all, of("ssm_out_multiplier")}};
  f["ffn_gate"] = {{all, mlp[0]}};
  f["ffn_down"] = {{all, mlp[1]}};
  const std::int64_t heads = r.need({"mamba_n_heads"}, 1), inner = heads * r.need({"mamba_d_head"}, 1);
  const std::int64_t state = r.out.norm_groups * r.need({"mamba_d_state"}, 1);
  f["ssm_in"] = {{inner, ssm * parts[0]},
                 {inner, ssm * parts[1]},
                 {state, ssm * parts[2]},
                 {state, ssm * parts[3]},
                 {heads, ssm * parts[4]}};
  if (const auto x = r.fields.number_if("embedding_multiplier")) r.set("embedding_scale", *x);
  if (const auto x = r.fields.number_if("lm_head_multiplier")) r.set("logit_scale", *x);
}

// Every layer is such a mixer alone.
static void read_states_alone(ConfigReader& r) {
  r.layers = r.out.layers = r.fields.integer("num_hidden_layers", 1, 4096);
  r.out.heads = r.out.kv_heads = 1;  // none
  r.set("block_count", r.layers);
  r.set("embedding_length", r.fields.integer("hidden_size", 1, ConfigReader::kMost));
  r.set("feed_forward_length", std::int64_t{0});
  r.set("attention.head_count", std::int64_t{0});
  r.set("attention.layer_norm_rms_epsilon", r.fields.number_if("layer_norm_epsilon").value_or(1e-5));
  r.set("context_length", std::int64_t{1} << 20);  // as GGUF has it: nothing bounds it
}

void read_mamba2(ConfigReader& r) {
  read_states_alone(r);
  read_mamba(r);
}

// Mamba and Falcon Mamba, whose class norms without weights.
void read_mamba1(ConfigReader& r) {
  read_states_alone(r);
  r.expect("use_bias", false);
  r.expect("hidden_act", "silu");
  const std::int64_t width = r.need({"hidden_size"}, 1);
  r.out.tied = r.fields.flag_if("tie_word_embeddings").value_or(true);
  r.set("ssm.conv_kernel", r.integer_of({"conv_kernel"}, 1).value_or(4));
  r.set("ssm.inner_size", r.integer_of({"intermediate_size"}, 1).value_or(2 * width));
  r.set("ssm.state_size", r.integer_of({"state_size"}, 1).value_or(16));
  r.set("ssm.time_step_rank", r.integer_of({"time_step_rank"}, 1).value_or((width + 15) / 16));
  if (r.out.family.model_type != "falcon_mamba") return;
  r.set("ssm.dt_b_c_rms", true);
  r.take_number("mixer_rms_eps", "ssm.dt_b_c_rms_epsilon");
}

// Which layers are of a kind that comes once in so many.
static bool in_period(const ConfigReader& r, const char* period, const char* offset, std::int64_t layer) {
  return (layer - r.need({offset}, 0)) % r.need({period}, 1) == 0 && layer >= r.need({offset}, 0);
}

void read_jamba(ConfigReader& r) {
  r.expect("mamba_proj_bias", false);
  r.expect("sliding_window", nullptr);
  std::vector<std::int64_t> kv;
  for (std::int64_t l = 0; l < r.layers; ++l)
    kv.push_back(in_period(r, "attn_layer_period", "attn_layer_offset", l) ? r.out.kv_heads : 0);
  r.set("attention.head_count_kv", std::move(kv));
  r.set("ssm.conv_kernel", r.need({"mamba_d_conv"}, 1));
  r.set("ssm.inner_size", r.need({"mamba_expand"}, 1) * r.width);
  r.set("ssm.state_size", r.need({"mamba_d_state"}, 1));
  r.set("ssm.time_step_rank", r.integer_of({"mamba_dt_rank"}, 1).value_or((r.width + 15) / 16));
  read_experts(r);
}

// Kimi Delta Attention in layers of "linear_attention", and latent attention.
static void read_keyed_delta(ConfigReader& r, std::int64_t size, std::int64_t taps,
                             const std::vector<std::string>& kinds) {
  read_latent(r);
  r.set("kda.head_dim", size);
  r.set("ssm.conv_kernel", taps);
  r.set("attention.head_count_kv", attends(r, kinds, {"linear_attention"}));
}

// Published configurations have linear_attn_config, whose layers are numbered from 1; transformers writes its own.
void read_kimi_linear(ConfigReader& r) {
  const FolderJson* given = r.fields.object("linear_attn_config");
  if (!given) {
    read_keyed_delta(r, r.need({"linear_head_dim"}, 1), r.need({"linear_conv_kernel_dim"}, 1), layer_kinds(r));
    return;
  }
  const ConfigFields fields(*given, r.fields.path(), "linear_attn_config.");
  const FolderJson* full = fields.array("full_attn_layers");
  if (!full) fields.bad("full_attn_layers", "is missing");
  std::vector<std::string> kinds(static_cast<std::size_t>(r.layers), "linear_attention");
  for (const FolderJson& i : *full) {
    if (!i.is_number_unsigned() || i.get<std::uint64_t>() < 1 || i.get<std::uint64_t>() > kinds.size())
      fields.bad("full_attn_layers",
                 fmt::format("holds {}, expected layers from 1 to {}", i.dump().substr(0, 40), r.layers));
    kinds[i.get<std::size_t>() - 1] = "full_attention";
  }
  read_keyed_delta(r, fields.integer("head_dim", 1, ConfigReader::kMost),
                   fields.integer_if("short_conv_kernel_size", 1, ConfigReader::kMost).value_or(4), kinds);
}

// Ling 3. What transformers saves has the size of the heads as linear_head_dim, and in head_dim what RoPE turns.
void read_bailing_hybrid(ConfigReader& r) {
  for (const char* name : {"expert_swiglu_limit_list", "share_expert_swiglu_limit_list"}) r.expect(name, nullptr);
  std::vector<std::string> kinds;
  if (r.fields.find("layer_types")) {
    kinds = layer_kinds(r);
  } else {
    const std::int64_t group = r.need({"layer_group_size"}, 1);
    for (std::int64_t l = 0; l < r.layers; ++l)
      kinds.emplace_back((l + 1) % group == 0 ? "full_attention" : "linear_attention");
  }
  read_keyed_delta(r, r.need({"linear_head_dim", "head_dim"}, 1), r.need({"short_conv_kernel_size"}, 1), kinds);
  const bool safe = r.fields.flag_if("kda_safe_gate").value_or(true);
  r.set("kda.safe_gate", safe);
  if (safe) r.set("kda.gate_lower_bound", r.fields.number_if("kda_lower_bound").value_or(-5.0));
}

}  // namespace kvasir::hub
