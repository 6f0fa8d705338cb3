// Models with experts, and those whose attention differs from layer to layer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hub/config_reader.hpp"
#include "hub/rope_config.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

constexpr std::int64_t kSigmoid = 2;  // expert_gating_func

bool scores_by_sigmoid(const ConfigReader& r) {
  if (const auto given = r.fields.text_if("scoring_func")) {
    if (*given != "softmax" && *given != "sigmoid")
      r.fields.unsupported("scoring_func", fmt::format("is '{}', expected softmax or sigmoid", given->substr(0, 40)));
    return *given == "sigmoid";
  }
  constexpr std::string_view kTypes[] = {"axk1",        "deepseek_v32", "glm_moe_dsa",   "sarvam_mla", "bailing_hybrid",
                                         "deepseek_v3", "glm4_moe",     "glm4_moe_lite", "kimi_k2",    "kimi_linear",
                                         "lfm2_moe",    "minimax_m2",   "nemotron_h",    "sarvam_moe", "solar_open"};
  return std::find(std::begin(kTypes), std::end(kTypes), r.out.family.model_type) != std::end(kTypes);
}

// Layers with experts follow those without.
void read_dense_layers(ConfigReader& r) {
  const auto dense = r.integer_of({"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"}, 0);
  const FolderJson* types = r.by_layer("mlp_layer_types");
  if (!types) {
    if (dense) r.set("leading_dense_block_count", *dense);
    return;
  }
  const auto first = std::find(types->begin(), types->end(), "sparse");
  if (std::any_of(first, types->end(), [](const FolderJson& t) { return t != "sparse"; }))
    r.fields.unsupported("mlp_layer_types", "has a layer without experts behind one with them");
  r.set("leading_dense_block_count", std::int64_t{first - types->begin()});
}

void read_groups(ConfigReader& r) {
  const auto groups = r.integer_of({"n_group", "num_expert_group"}, 1);
  if (!groups || *groups == 1 || r.fields.text_if("topk_method") == "greedy") return;
  r.set("expert_group_count", *groups);
  r.set("expert_group_used_count", r.need({"topk_group"}, 1));
}

}  // namespace

void read_experts(ConfigReader& r) {
  r.out.experts =
      r.integer_of({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, 0).value_or(0);
  if (r.out.experts == 0) return;
  r.expect("clip_qkv", nullptr);
  r.expect("decoder_sparse_step", 1);
  r.expect("mlp_only_layers", FolderJson::array());
  const std::int64_t width = r.need({"moe_intermediate_size", "intermediate_size"}, 1);
  r.set("expert_count", r.out.experts);
  r.set("expert_used_count",
        r.need({"num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "num_experts_per_token"}, 1));
  r.set("expert_feed_forward_length",
        r.out.family.model_type == "hunyuan_v1_moe" ? r.need({"intermediate_size"}, 1) : width);
  if (scores_by_sigmoid(r)) r.set("expert_gating_func", kSigmoid);
  for (const char* name : {"norm_topk_prob", "moe_renormalize"})
    if (const auto norm = r.fields.flag_if(name)) r.set("expert_weights_norm", *norm);
  if (const auto scale = r.fields.number_if("routed_scaling_factor"); scale && *scale != 1.0)
    r.set("expert_weights_scale", *scale);
  for (const char* name : {"route_scale", "router_scaling_factor"}) r.take_number(name, "expert_weights_scale");
  read_dense_layers(r);
  read_groups(r);
  if (const auto n = r.integer_of({"n_shared_experts", "num_shared_experts"}, 0)) r.set("expert_shared_count", *n);
  if (const auto n = r.integer_of({"num_shared_expert"}, 0))
    r.set("expert_shared_feed_forward_length", *n * r.need({"intermediate_size"}, 1));
  if (const auto n = r.integer_of({"moe_num_shared_experts"}, 0))
    r.set("expert_shared_feed_forward_length", *n * width);
  if (const auto n = r.integer_of(
          {"shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"}, 0))
    r.set("expert_shared_feed_forward_length", *n);
  if (const auto turned = r.integer_of({"rotary_dim"}, 2)) r.set("rope.dimension_count", *turned);
  r.out.predicting = r.integer_of({"num_nextn_predict_layers"}, 0).value_or(0);
}

// Trinity. The class reads neither groups nor how weights are made of scores.
void read_afmoe(ConfigReader& r) {
  r.expect("route_norm", true);
  r.expect("score_func", "sigmoid");
  r.expect("n_group", 1);
  read_experts(r);
  if (!r.fields.find("layer_types"))
    r.set("attention.sliding_window_pattern", r.integer_of({"global_attn_every_n_layers"}, 1).value_or(4));
  if (!r.fields.flag_if("mup_enabled").value_or(false)) r.set("embedding_scale", 1.0);
}

void read_phimoe(ConfigReader& r) {
  read_experts(r);
  r.take_number("router_jitter_noise", "router_jitter");
}

// RoPE of the kinds of layers that there are, which is the class's own where it is not there.
static void expect_ropes(const ConfigReader& r) {
  const FolderJson *rope = r.fields.object("rope_parameters"), *types = r.by_layer("layer_types");
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    const bool used = !types || std::find(types->begin(), types->end(), kind) != types->end();
    if (used && (!rope || !rope->contains(kind) || !(*rope)[kind].is_object()))
      r.fields.bad("rope_parameters", fmt::format("has no '{}', which is the class's own there", kind));
  }
}

void read_laguna(ConfigReader& r) {
  r.expect("moe_apply_router_weight_on_input", false);
  r.expect("moe_router_logit_softcapping", 0.0);
  read_experts(r);
  expect_ropes(r);
  r.take_number("moe_routed_scaling_factor", "expert_weights_scale");
  if (!r.fields.find("layer_types")) r.fields.bad("layer_types", "is missing");
  const FolderJson* heads = r.by_layer("num_attention_heads_per_layer");
  if (!heads) return;
  std::vector<std::int64_t> all;
  for (const FolderJson& n : *heads) {
    if (!n.is_number_integer() || n.get<std::int64_t>() < 1 || n.get<std::int64_t>() > ConfigReader::kMost)
      r.fields.bad("num_attention_heads_per_layer", "holds something else than numbers of heads");
    all.push_back(n.get<std::int64_t>());
  }
  r.set("attention.head_count", std::move(all));
}

// Both kinds of layers turn whole heads.
void read_mellum(ConfigReader& r) {
  read_experts(r);
  expect_ropes(r);
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    const ConfigFields own((*r.fields.object("rope_parameters"))[kind], r.fields.path(),
                           fmt::format("rope_parameters.{}.", kind));
    if (own.number_if("partial_rotary_factor").value_or(1.0) != 1.0)
      own.unsupported("partial_rotary_factor", "is not 1");
  }
}

// One base of all layers that have positions.
void read_granite_swa(ConfigReader& r) {
  read_experts(r);
  if (!r.fields.find("layer_types")) {
    std::vector<bool> local;
    for (std::int64_t l = 0; l < r.layers; ++l) local.push_back(l % 4 != 0);
    r.set("attention.sliding_window_pattern", std::move(local));
  }
  const FolderJson* bases = r.by_layer("layer_rope_theta");
  if (!bases) return;
  std::vector<bool> turned;
  double base = 0;
  for (const FolderJson& b : *bases) {
    const double x = b.is_number() ? b.get<double>() : -1.0;
    if (x != 0.0 && (x <= 1.0 || (base != 0.0 && x != base)))
      r.fields.unsupported("layer_rope_theta", "holds more than one base beside 0");
    turned.push_back(x != 0.0);
    if (x != 0.0) base = x;
  }
  r.set("attention.rope_pattern", std::move(turned));
  if (base != 0.0) r.set("rope.freq_base", static_cast<double>(static_cast<float>(base)));
}

void read_ernie(ConfigReader& r) {
  read_experts(r);
  const std::int64_t step = r.integer_of({"moe_layer_interval"}, 1).value_or(1);
  r.set("interleave_moe_layer_step", step);
  if (const auto last = r.fields.integer_if("moe_layer_end_index", -1, 4096);
      last && *last >= 0 && *last < r.layers - 1)
    r.fields.unsupported("moe_layer_end_index", fmt::format("is {}, expected the last layer, {}", *last, r.layers - 1));
}

void read_gpt_oss(ConfigReader& r) {
  read_experts(r);
  r.expect("swiglu_limit", 7.0);
  r.expect("swiglu_alpha", 1.702);
  if (!r.metadata.has("gpt-oss.attention.sliding_window")) r.fields.bad("sliding_window", "is missing");
}

void read_llama4(ConfigReader& r) {
  read_experts(r);
  if (const FolderJson* types = r.by_layer("layer_types"))
    for (std::size_t l = 0; l < types->size(); ++l)
      if ((*types)[l] != ((l + 1) % 4 == 0 ? "full_attention" : "chunked_attention"))
        r.fields.unsupported("layer_types", "is not the pattern of three layers with chunks and one without");
  r.set("attention.sliding_window", r.fields.integer("attention_chunk_size", 1, ConfigReader::kMostContext));
  const bool grows = r.fields.flag_if("attn_temperature_tuning").value_or(true);
  r.set("attention.temperature_scale", grows ? r.fields.number_if("attn_scale").value_or(0.1) : 0.0);
  if (const auto n = r.fields.integer_if("floor_scale", 1, ConfigReader::kMostContext))
    r.set("attention.temperature_length", *n);
  r.expect("use_qk_norm", r.out.experts != 128);
  r.set("interleave_moe_layer_step", r.need({"interleave_moe_layer_step"}, 1));
  r.set("feed_forward_length", r.need({"intermediate_size_mlp"}, 1));
  r.set("expert_feed_forward_length", r.need({"intermediate_size"}, 1));
  r.set("expert_shared_feed_forward_length", r.need({"intermediate_size"}, 1));
}

// Layers with and without a window have sizes and RoPE of their own.
void read_gemma4(ConfigReader& r) {
  if (r.fields.text_if("use_bidirectional_attention") == "all")
    r.fields.unsupported("use_bidirectional_attention", "is 'all', expected 'vision' or null");
  const FolderJson* types = r.by_layer("layer_types");
  if (!types) r.fields.bad("layer_types", "is missing");
  std::int64_t global = r.integer_of({"global_head_dim"}, 1).value_or(0);
  std::int64_t kv = r.out.kv_heads;
  if (r.fields.flag_if("attention_k_eq_v").value_or(false))
    kv = r.integer_of({"num_global_key_value_heads"}, 1).value_or(kv);
  std::vector<std::int64_t> kv_heads, ffn;
  const std::int64_t shared = r.integer_of({"num_kv_shared_layers"}, 0).value_or(0);
  const std::int64_t dense = r.need({"intermediate_size"}, 1);
  const bool wide = r.fields.flag_if("use_double_wide_mlp").value_or(false);
  const FolderJson* by_layer = r.fields.object("per_layer_config");
  for (std::int64_t l = 0; l < r.layers; ++l) {
    const bool full = (*types)[static_cast<std::size_t>(l)] == "full_attention";
    kv_heads.push_back(full ? kv : r.out.kv_heads);
    ffn.push_back(wide && l >= r.layers - shared ? 2 * dense : dense);
    const auto own = by_layer ? by_layer->find(std::to_string(l)) : FolderJson::const_iterator();
    if (!by_layer || own == by_layer->end() || !own->is_object()) continue;
    const std::string prefix = fmt::format("per_layer_config.{}.", l);
    const ConfigFields layer(*own, r.fields.path(), prefix);
    if (const auto n = layer.integer_if("num_key_value_heads", 1, ConfigReader::kMost)) kv_heads.back() = *n;
    if (const auto n = layer.integer_if("intermediate_size", 1, ConfigReader::kMost)) ffn.back() = *n;
    if (const auto n = layer.integer_if("head_dim", 1, ConfigReader::kMost)) {
      if (!full || (global != 0 && global != *n))
        layer.unsupported("head_dim", "is not one size of all layers without a window");
      global = *n;
    }
  }
  if (global == 0) global = r.head;
  r.set("attention.head_count_kv", kv_heads);
  r.set("feed_forward_length", ffn);
  for (const char* key : {"attention.key_length", "attention.value_length"}) {
    r.set(key, global);
    r.set(std::string(key) + "_swa", r.head);
  }
  r.set("attention.shared_kv_layers", shared);
  if (!r.fields.find("final_logit_softcapping")) r.set("final_logit_softcapping", 0.0);
  if (const auto n = r.integer_of({"hidden_size_per_layer_input"}, 0); n && *n > 0)
    r.set("embedding_length_per_layer_input", *n);
  r.set("rope.dimension_count", global);
  r.set("rope.dimension_count_swa", r.head);
  // Layers without a window turn the first pairs alone: the others' frequencies are divided by a huge number.
  const FolderJson* rope = r.fields.object("rope_parameters");
  if (rope && rope->contains("full_attention") && (*rope)["full_attention"].is_object()) {
    const ConfigFields full((*rope)["full_attention"], r.fields.path(), "rope_parameters.full_attention.");
    r.out.extras.push_back({"rope_freqs.weight", proportional_factors(full, global)});
  }
  if (r.fields.flag_if("enable_moe_block").value_or(false)) read_experts(r);
}

void read_gemma_embedding2(ConfigReader& r) {
  read_gemma4(r);
  r.expect("attention_bias", false);
  r.set("embedding_length_out", r.need({"embedding_dim"}, 1));
  r.set("attention.causal", false);
  r.set("pooling_type", std::int64_t{1});  // "equivalent to projecting after mean pooling"
}

void read_assistant(ConfigReader& r, const ConfigFields& around) {
  r.set("embedding_length_out", around.integer("backbone_hidden_size", 1, ConfigReader::kMost));
  r.set("nextn_predict_layers", r.layers);
  r.expect("attention_bias", false);
  if (r.integer_of({"hidden_size_per_layer_input"}, 0).value_or(0) != 0)
    r.fields.unsupported("hidden_size_per_layer_input", "is not 0");
  if (r.integer_of({"num_kv_shared_layers"}, 0).value_or(r.layers) != r.layers)
    r.fields.unsupported("num_kv_shared_layers", fmt::format("is not the number of layers, {}", r.layers));
  if (around.flag_if("use_ordered_embeddings").value_or(false))
    r.set("centroids_used",
          around.integer("centroid_intermediate_top_k", 1, around.integer("num_centroids", 1, ConfigReader::kMost)));
}

// DeepSeek-V2 and those like it.
void read_latent(ConfigReader& r) {
  r.expect("rope_interleave", true);
  r.expect("attention_bias", false);
  LatentHeads& l = r.out.latent;
  const std::int64_t rank = r.need({"kv_lora_rank"}, 1), turned = r.need({"qk_rope_head_dim"}, 2);
  l = {r.out.heads, r.need({"qk_nope_head_dim"}, 1), r.need({"v_head_dim"}, 1)};
  r.out.kv_heads = 1;
  r.set("attention.kv_lora_rank", rank);
  if (const auto low = r.integer_of({"q_lora_rank"}, 1)) r.set("attention.q_lora_rank", *low);
  r.set("attention.head_count_kv", std::int64_t{1});
  r.set("attention.key_length", rank + turned);
  r.set("attention.value_length", rank);
  r.set("attention.key_length_mla", l.keys + turned);
  r.set("attention.value_length_mla", l.values);
  read_experts(r);
}

// Which layers have an index of their own, as the class of GLM-5 says it: "indexer_types", or letters, or one in
// "index_topk_freq" layers from the one at "index_skip_topk_offset" - 1 on.
static std::vector<bool> indexed_layers(const ConfigReader& r) {
  std::vector<bool> all;
  if (const FolderJson* types = r.by_layer("indexer_types")) {
    for (const FolderJson& t : *types) {
      if (t != "full" && t != "shared") r.fields.unsupported("indexer_types", "has neither 'full' nor 'shared'");
      all.push_back(t == "full");
    }
    return all;
  }
  if (const auto letters = r.fields.text_if("index_topk_pattern")) {
    if (static_cast<std::int64_t>(letters->size()) != r.layers || letters->find_first_not_of("FS") != letters->npos)
      r.fields.bad("index_topk_pattern", fmt::format("expected {} letters F and S", r.layers));
    for (const char c : *letters) all.push_back(c == 'F');
    return all;
  }
  const std::int64_t each = std::max<std::int64_t>(r.integer_of({"index_topk_freq"}, 0).value_or(1), 1);
  const std::int64_t offset = r.integer_of({"index_skip_topk_offset"}, 0).value_or(2);
  for (std::int64_t l = 0; l < r.layers; ++l) all.push_back(std::max<std::int64_t>(l - offset + 1, 0) % each == 0);
  return all;
}

// DeepSeek V3.2 and GLM-5.
void read_indexed(ConfigReader& r) {
  r.expect("indexer_rope_interleave", true);
  read_latent(r);
  r.set("attention.indexer.head_count", r.need({"index_n_heads"}, 1));
  r.set("attention.indexer.key_length", r.need({"index_head_dim"}, 1));
  r.set("attention.indexer.top_k", r.need({"index_topk"}, 1));
  if (r.out.family.model_type == "glm_moe_dsa") r.set("attention.indexer.types", indexed_layers(r));
}

void read_minicpm3(ConfigReader& r) {
  for (const char* name : {"n_routed_experts", "num_experts", "num_local_experts"}) r.expect(name, nullptr);
  if (!r.fields.find("v_head_dim")) r.fields.bad("v_head_dim", "is missing");
  read_latent(r);
  const double layers = static_cast<double>(r.layers), width = static_cast<double>(r.width);
  const auto scale = [&](const char* name, double own, double none) {
    return r.fields.is_null(name) ? none : r.fields.number_if(name).value_or(own);
  };
  r.out.tied = r.fields.flag_if("tie_word_embeddings").value_or(true);
  r.set("embedding_scale", r.fields.number_if("scale_emb").value_or(12.0));
  r.set("residual_scale", scale("scale_depth", 1.4, std::sqrt(layers)) / std::sqrt(layers));
  r.set("logit_scale", width / scale("dim_model_base", 256.0, width));
}

void read_cohere2_moe(ConfigReader& r) {
  r.expect("prefix_dense_sliding_window_pattern", 1);
  r.out.tied = r.fields.flag_if("tie_word_embeddings").value_or(true);
  read_experts(r);
  r.set("expert_feed_forward_length", r.need({"intermediate_size"}, 1));
  const std::string by = r.fields.text_if("expert_selection_fn").value_or("softmax");
  if (by != "softmax" && by != "sigmoid") r.fields.unsupported("expert_selection_fn", "is neither softmax nor sigmoid");
  r.set("expert_gating_func", by == "softmax" ? std::int64_t{1} : kSigmoid);
  r.take_number("logit_scale", "logit_scale");
  if (r.integer_of({"num_shared_experts"}, 0).value_or(0) > 0) {
    const std::string way = r.fields.text_if("shared_expert_combination_strategy").value_or("average");
    if (way != "average" && way != "sum")
      r.fields.unsupported("shared_expert_combination_strategy", "is neither average nor sum");
    if (way == "average") r.set("expert_weights_scale", 0.5);
    if (way == "average") r.out.factors["ffn_down_shexp"] = {{ConfigReader::kMost, 0.5f}};
    r.set("shared_expert_scaled", true);
  }
  if (!r.fields.number_if("rms_norm_eps")) r.set("attention.layer_norm_rms_epsilon", 0.0);  // layer norms
}

}  // namespace kvasir::hub
