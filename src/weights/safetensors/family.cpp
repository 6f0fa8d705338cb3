#include "weights/safetensors/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.hpp"
#include "weights/safetensors/config_reader.hpp"

namespace kvasir::weights {
namespace {

// Names of layers that mean the same wherever they stand.
constexpr Rename kOfLayer[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.sinks", "attn_sinks.weight"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    // Latent attention.
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b", Make::kLatent},
    // Experts.
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.gate.wg", "ffn_gate_inp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.*.up_proj", "ffn_up_exps"},
    {"mlp.experts.*.down_proj", "ffn_down_exps"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps"},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps"},
    // Gated DeltaNet.
    {"linear_attn.in_proj_qkvz", "ssm_in"},
    {"linear_attn.in_proj_ba", "ssm_ba"},
    {"linear_attn.in_proj_qkv", "attn_qkv"},
    {"linear_attn.in_proj_z", "attn_gate"},
    {"linear_attn.in_proj_b", "ssm_beta"},
    {"linear_attn.in_proj_a", "ssm_alpha"},
    {"linear_attn.conv1d", "ssm_conv1d"},
    {"linear_attn.A_log", "ssm_a", Make::kDecay},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm", "ssm_norm"},
    {"linear_attn.out_proj", "ssm_out"},
    // Mamba-2.
    {"mamba.in_proj", "ssm_in"},
    {"mamba.conv1d", "ssm_conv1d"},
    {"mamba.A_log", "ssm_a", Make::kDecay},
    {"mamba.D", "ssm_d"},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.norm", "ssm_norm"},
    {"mamba.out_proj", "ssm_out"},
};

constexpr Rename kFalconH1[] = {{"pre_ff_layernorm", "ffn_norm"},
                                {"feed_forward.gate_proj", "ffn_gate"},
                                {"feed_forward.up_proj", "ffn_up"},
                                {"feed_forward.down_proj", "ffn_down"}};
// Published folders have the experts one way round, those that transformers 5 saved again the other.
constexpr Rename kQwen3VlMoe[] = {{"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", Make::kEitherWay},
                                  {"mlp.experts.down_proj", "ffn_down_exps.weight", Make::kEitherWay}};
constexpr Rename kGemma4[] = {{"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                              {"experts.down_proj", "ffn_down_exps.weight"},
                              {"router.proj", "ffn_gate_inp"},
                              {"router.scale", "ffn_gate_inp.scale"},
                              {"router.per_expert_scale", "ffn_down_exps.scale"},
                              {"layer_scalar", "layer_output_scale.weight"},
                              {"per_layer_input_gate", "inp_gate"},
                              {"per_layer_projection", "proj"},
                              {"post_per_layer_input_norm", "post_norm"},
                              {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
                              {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
                              {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"}};
constexpr Rename kGlm4[] = {{"post_self_attn_layernorm", "post_attention_norm"},
                            {"post_mlp_layernorm", "post_ffw_norm"}};
constexpr Rename kGptJ[] = {{"ln_1", "attn_norm"},           {"attn.q_proj", "attn_q"}, {"attn.k_proj", "attn_k"},
                            {"attn.v_proj", "attn_v"},       {"mlp.fc_in", "ffn_up"},   {"mlp.fc_out", "ffn_down"},
                            {"attn.out_proj", "attn_output"}};
constexpr Rename kGptOss[] = {{"mlp.router", "ffn_gate_inp"},
                              {"mlp.experts.gate_up_proj", "ffn_*_exps.weight", Make::kTurns},
                              {"mlp.experts.gate_up_proj_bias", "ffn_*_exps.bias", Make::kTurns},
                              {"mlp.experts.down_proj", "ffn_down_exps.weight", Make::kTurned},
                              {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"}};
constexpr Rename kGranite[] = {{"block_sparse_moe.router.layer", "ffn_gate_inp"},
                               {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
                               {"block_sparse_moe.output_linear", "ffn_down_exps"},
                               {"shared_mlp.input_linear", "ffn_*_shexp", Make::kHalves},
                               {"shared_mlp.output_linear", "ffn_down_shexp"}};
// Without experts the shared one is the only feed forward.
constexpr Rename kGraniteDense[] = {{"shared_mlp.input_linear", "ffn_*", Make::kHalves},
                                    {"shared_mlp.output_linear", "ffn_down"}};
constexpr Rename kHunyuan[] = {{"self_attn.query_layernorm", "attn_q_norm"},
                               {"self_attn.key_layernorm", "attn_k_norm"}};
constexpr Rename kLfm2[] = {{"operator_norm", "attn_norm"},
                            {"ffn_norm", "ffn_norm"},
                            {"self_attn.q_layernorm", "attn_q_norm"},
                            {"self_attn.k_layernorm", "attn_k_norm"},
                            {"self_attn.out_proj", "attn_output"},
                            {"conv.in_proj", "shortconv.in_proj"},
                            {"conv.conv", "shortconv.conv"},
                            {"conv.out_proj", "shortconv.out_proj"},
                            {"feed_forward.w1", "ffn_gate"},
                            {"feed_forward.w3", "ffn_up"},
                            {"feed_forward.w2", "ffn_down"},
                            {"feed_forward.gate", "ffn_gate_inp"},
                            {"feed_forward.expert_bias", "exp_probs_b.bias"},
                            {"feed_forward.experts.*.w1", "ffn_gate_exps"},
                            {"feed_forward.experts.*.w3", "ffn_up_exps"},
                            {"feed_forward.experts.*.w2", "ffn_down_exps"}};
constexpr Rename kLlama4[] = {{"feed_forward.gate_proj", "ffn_gate"},
                              {"feed_forward.up_proj", "ffn_up"},
                              {"feed_forward.down_proj", "ffn_down"},
                              {"feed_forward.router", "ffn_gate_inp"},
                              {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps.weight", Make::kTurned},
                              {"feed_forward.experts.down_proj", "ffn_down_exps.weight", Make::kTurned},
                              {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                              {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                              {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"}};
constexpr Rename kMixer[] = {{"norm", "attn_norm"},
                             {"mixer.in_proj", "ssm_in"},
                             {"mixer.conv1d", "ssm_conv1d"},
                             {"mixer.A_log", "ssm_a", Make::kDecay},
                             {"mixer.D", "ssm_d"},
                             {"mixer.dt_bias", "ssm_dt.bias"},
                             {"mixer.norm", "ssm_norm"},
                             {"mixer.out_proj", "ssm_out"},
                             {"mixer.q_proj", "attn_q"},
                             {"mixer.k_proj", "attn_k"},
                             {"mixer.v_proj", "attn_v"},
                             {"mixer.o_proj", "attn_output"},
                             {"mixer.up_proj", "ffn_up"},
                             {"mixer.down_proj", "ffn_down"},
                             {"mixer.gate", "ffn_gate_inp"},
                             {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
                             {"mixer.experts.*.up_proj", "ffn_up_exps"},
                             {"mixer.experts.*.down_proj", "ffn_down_exps"},
                             {"mixer.fc1_latent_proj", "ffn_latent_down"},
                             {"mixer.fc2_latent_proj", "ffn_latent_up"},
                             {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
                             {"mixer.shared_experts.down_proj", "ffn_down_shexp"}};
constexpr Rename kPhi[] = {{"self_attn.dense", "attn_output"}, {"mlp.fc1", "ffn_up"}, {"mlp.fc2", "ffn_down"}};
constexpr Rename kStarcoder2[] = {{"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};
constexpr Rename kOpt[] = {{"self_attn_layer_norm", "attn_norm"},
                           {"final_layer_norm", "ffn_norm"},
                           {"self_attn.out_proj", "attn_output"},
                           {"fc1", "ffn_up"},
                           {"fc2", "ffn_down"}};

constexpr std::string_view kGelu = "gelu_pytorch_tanh";
constexpr Family kFamilies[] = {
    {.model_type = "arcee", .arch = "arcee", .pairs = true, .activation = "relu2"},
    {.model_type = "cohere", .arch = "command-r", .read = read_cohere},
    {.model_type = "cohere2", .arch = "cohere2", .read = read_cohere},
    {.model_type = "cwm", .arch = "llama", .pairs = true},
    {.model_type = "deepseek_v2", .arch = "deepseek2", .read = read_latent},
    {.model_type = "deepseek_v3", .arch = "deepseek2", .read = read_latent},
    {.model_type = "ernie4_5", .arch = "ernie4_5"},
    {.model_type = "ernie4_5_moe", .arch = "ernie4_5-moe", .read = read_ernie},
    {.model_type = "exaone4", .arch = "exaone4", .post_norms = true},
    {.model_type = "falcon_h1", .arch = "falcon-h1", .names = kFalconH1, .read = read_falcon_h1},
    {.model_type = "gemma", .arch = "gemma", .one_more = true, .activation = kGelu},
    {.model_type = "gemma2", .arch = "gemma2", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma3", .arch = "gemma3", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma3_text", .arch = "gemma3", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma4",
     .arch = "gemma4",
     .post_norms = true,
     .activation = kGelu,
     .names = kGemma4,
     .read = read_gemma4},
    {.model_type = "gemma4_text",
     .arch = "gemma4",
     .post_norms = true,
     .activation = kGelu,
     .names = kGemma4,
     .read = read_gemma4},
    {.model_type = "glm4", .arch = "glm4", .names = kGlm4},
    {.model_type = "glm4v_text", .arch = "glm4", .names = kGlm4},
    {.model_type = "glm4_moe", .arch = "glm4moe", .post_norms = true, .read = read_experts},
    {.model_type = "glm4_moe_lite", .arch = "deepseek2", .read = read_latent},
    {.model_type = "gpt_oss", .arch = "gpt-oss", .post_norms = true, .names = kGptOss, .read = read_gpt_oss},
    {.model_type = "gptj", .arch = "gptj", .names = kGptJ, .read_all = read_gptj},
    {.model_type = "granite", .arch = "granite", .pairs = true},
    {.model_type = "granitemoe", .arch = "granitemoe", .pairs = true, .names = kGranite, .read = read_experts},
    {.model_type = "granitemoehybrid",
     .arch = "granitehybrid",
     .pairs = true,
     .names = kGranite,
     .read = read_granite_hybrid},
    {.model_type = "granitemoeshared", .arch = "granitemoe", .pairs = true, .names = kGranite, .read = read_experts},
    {.model_type = "helium", .arch = "llama"},
    {.model_type = "hunyuan_v1_dense", .arch = "hunyuan-dense", .names = kHunyuan},
    {.model_type = "hunyuan_v1_moe", .arch = "hunyuan-moe", .names = kHunyuan, .read = read_experts},
    {.model_type = "internlm3", .arch = "llama", .pairs = true},
    {.model_type = "kimi_k2", .arch = "deepseek2", .read = read_latent},
    {.model_type = "lfm2", .arch = "lfm2", .names = kLfm2, .read = read_lfm2},
    {.model_type = "lfm2_moe", .arch = "lfm2moe", .names = kLfm2, .read = read_lfm2},
    {.model_type = "llama", .arch = "llama", .pairs = true},
    {.model_type = "llama4", .arch = "llama4", .names = kLlama4, .read = read_llama4},
    {.model_type = "llama4_text", .arch = "llama4", .names = kLlama4, .read = read_llama4},
    {.model_type = "mamba2", .arch = "mamba2", .names = kMixer, .read_all = read_mamba2},
    {.model_type = "minimax_m2", .arch = "minimax-m2", .read = read_experts},
    {.model_type = "ministral3", .arch = "mistral3", .pairs = true, .read = read_ministral},
    {.model_type = "mistral", .arch = "llama", .pairs = true},
    {.model_type = "mistral3", .arch = "mistral3", .pairs = true, .read = read_ministral},
    {.model_type = "mixtral", .arch = "llama", .pairs = true, .read = read_experts},
    {.model_type = "nemotron", .arch = "nemotron", .one_more = true, .activation = "relu2", .read = read_nemotron},
    {.model_type = "nemotron_h", .arch = "nemotron_h", .names = kMixer, .read = read_nemotron_h},
    {.model_type = "olmo2", .arch = "olmo2", .post_norms = true},
    {.model_type = "olmo3", .arch = "olmo2", .post_norms = true},
    {.model_type = "olmoe", .arch = "olmoe", .read = read_experts},
    {.model_type = "opt", .arch = "opt", .names = kOpt, .read_all = read_opt},
    {.model_type = "phi", .arch = "phi2", .activation = "gelu_new", .names = kPhi},
    {.model_type = "phi3", .arch = "phi3"},
    {.model_type = "qwen2", .arch = "qwen2"},
    {.model_type = "qwen2_5_vl", .arch = "qwen2"},
    {.model_type = "qwen2_5_vl_text", .arch = "qwen2"},
    {.model_type = "qwen2_moe", .arch = "qwen2moe", .read = read_experts},
    {.model_type = "qwen2_vl", .arch = "qwen2"},
    {.model_type = "qwen2_vl_text", .arch = "qwen2"},
    {.model_type = "qwen3", .arch = "qwen3"},
    {.model_type = "qwen3_5", .arch = "qwen35", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_5_moe", .arch = "qwen35moe", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_5_moe_text", .arch = "qwen35moe", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_5_text", .arch = "qwen35", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_moe", .arch = "qwen3moe", .read = read_experts},
    {.model_type = "qwen3_next", .arch = "qwen3next", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_vl_moe_text", .arch = "qwen3moe", .names = kQwen3VlMoe, .read = read_experts},
    {.model_type = "qwen3_vl_text", .arch = "qwen3"},
    {.model_type = "seed_oss", .arch = "seed_oss", .post_norms = true},
    {.model_type = "smollm3", .arch = "smollm3", .pairs = true},
    {.model_type = "stablelm", .arch = "stablelm"},
    {.model_type = "starcoder2", .arch = "starcoder2", .activation = kGelu, .names = kStarcoder2},
};

constexpr Rename kOfModel[] = {{"embed_tokens", "token_embd"},
                               {"embeddings", "token_embd"},
                               {"wte", "token_embd"},
                               {"norm", "output_norm"},
                               {"norm_f", "output_norm"},
                               {"ln_f", "output_norm"},
                               {"final_layernorm", "output_norm"},
                               {"final_layer_norm", "output_norm"},
                               {"embedding_norm", "token_embd_norm"},
                               {"embed_positions", "position_embd", Make::kBehindTwo},
                               {"project_in", "token_embd_in"},
                               {"project_out", "output_in"},
                               {"embed_tokens_per_layer", "per_layer_token_embd"},
                               {"per_layer_model_projection", "per_layer_model_proj"},
                               {"per_layer_projection_norm", "per_layer_proj_norm"},
                               {"lm_head", "output"}};

bool takes(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The tensor `name` of a table: as it stands there, or with ".weight" or ".bias" behind it.
std::optional<Place> find(std::span<const Rename> names, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot == name.npos ? 0 : dot);
  const std::string_view kind = dot == name.npos ? std::string_view() : name.substr(dot);
  for (const Rename& r : names) {
    if (r.from == name) return Place{.name = std::string(r.to), .make = r.make};
    if (r.from == stem && (kind == ".weight" || kind == ".bias"))
      return Place{.name = fmt::format("{}{}", r.to, kind), .make = r.make};
  }
  return std::nullopt;
}

// The number that `text` begins with, which is taken off; -1: none.
std::int64_t take_number(std::string_view& text) {
  std::int64_t n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < 0 || n > (1 << 24)) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

// "0.mlp.up_proj.weight" -> blk.0.ffn_up.weight.
std::optional<Place> of_layer(const Family& family, std::string_view rest) {
  const std::int64_t layer = take_number(rest);
  if (layer < 0 || !takes(rest, ".")) return std::nullopt;
  std::string name(rest);
  std::int64_t expert = -1;
  constexpr std::string_view kExperts = "experts.";
  if (const std::size_t at = rest.find(kExperts); at != rest.npos) {
    std::string_view behind = rest.substr(at + kExperts.size());
    expert = take_number(behind);
    if (expert >= 0) name = fmt::format("{}*{}", rest.substr(0, at + kExperts.size()), behind);
  }
  std::optional<Place> place = find(family.names, name);
  if (!place && takes(rest, "post_attention_layernorm."))
    place = Place{.name = fmt::format("{}.{}", family.post_norms ? "post_attention_norm" : "ffn_norm", rest)};
  if (!place) place = find(kOfLayer, name);
  if (!place) return std::nullopt;
  place->name = fmt::format("blk.{}.{}", layer, place->name);
  place->expert = expert;
  place->layer = static_cast<int>(layer);
  return place;
}

}  // namespace

std::span<const Rename> granite_without_experts() { return kGraniteDense; }

const Family& family_of(std::string_view model_type, const std::string& path) {
  const auto it = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                               [&](const Family& f) { return f.model_type == model_type; });
  if (it != std::end(kFamilies)) return *it;
  std::string known;
  for (const Family& f : kFamilies) known += fmt::format("{}{}", known.empty() ? "" : ", ", f.model_type);
  throw Error(Code::kUnsupported,
              fmt::format("'model_type' is '{}', expected one of {}; other models run from GGUF files",
                          model_type.substr(0, 80), known),
              path);
}

Place place_of(const Family& family, std::string_view name, const std::string& path) {
  std::string_view rest = name;
  if (rest.ends_with(".rotary_emb.inv_freq") || rest.ends_with(".masked_bias")) return {};
  for (const std::string_view model : {"", "model."})
    for (const std::string_view other : {"vision_tower.", "multi_modal_projector.", "visual.", "audio_tower.",
                                         "embed_vision.", "embed_audio.", "vision_model.", "connector.", "mtp."})
      if (rest.starts_with(model) && rest.substr(model.size()).starts_with(other)) return {};
  takes(rest, "model.language_model.") || takes(rest, "model.text_model.") || takes(rest, "language_model.model.") ||
      takes(rest, "language_model.") || takes(rest, "model.decoder.") || takes(rest, "model.") ||
      takes(rest, "backbone.") || takes(rest, "transformer.") || takes(rest, "decoder.");
  if (auto place = find(kOfModel, rest)) return *place;
  std::string_view layer = rest;
  if (takes(layer, "layers.") || takes(layer, "h."))
    if (auto place = of_layer(family, layer)) return *place;
  throw Error(Code::kUnsupported,
              fmt::format("tensor {}: is none of a {} model's", name.substr(0, 200), family.model_type), path);
}

}  // namespace kvasir::weights
