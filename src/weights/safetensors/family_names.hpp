// What folders call the tensors that GGUF has, by family. For family.cpp alone.
#pragma once

#include "weights/safetensors/family.hpp"

namespace kvasir::weights {

// Names of layers that mean the same wherever they stand.
inline constexpr Rename kOfLayer[] = {
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
    {"mlp.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.*.up_proj", "ffn_up_exps"},
    {"mlp.experts.*.down_proj", "ffn_down_exps"},
    {"mlp.switch_mlp.gate_proj", "ffn_gate_exps"},  // of MLX
    {"mlp.switch_mlp.up_proj", "ffn_up_exps"},
    {"mlp.switch_mlp.down_proj", "ffn_down_exps"},
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

inline constexpr Rename kAfmoe[] = {{"pre_mlp_layernorm", "ffn_norm"},
                                    {"post_mlp_layernorm", "post_ffw_norm"},
                                    {"self_attn.gate_proj", "attn_gate"},
                                    {"mlp.router.gate", "ffn_gate_inp"},
                                    {"mlp.expert_bias", "exp_probs_b.bias"}};
// Falcon, BLOOM and GPT-NeoX.
inline constexpr Rename kByKvHead[] = {{"self_attention.query_key_value", "attn_qkv", Make::kByHead},
                                       {"attention.query_key_value", "attn_qkv", Make::kByHead},
                                       {"self_attention.dense", "attn_output"},
                                       {"attention.dense", "attn_output"},
                                       {"ln_attn", "attn_norm_2"},
                                       {"ln_mlp", "attn_norm"},
                                       {"mlp.dense_h_to_4h", "ffn_up"},
                                       {"mlp.dense_4h_to_h", "ffn_down"}};
inline constexpr Rename kApertus[] = {{"attention_layernorm", "attn_norm"},
                                      {"feedforward_layernorm", "ffn_norm"},
                                      {"mlp.act_fn.alpha_p", "xielu.alpha_p", Make::kNumber},
                                      {"mlp.act_fn.alpha_n", "xielu.alpha_n", Make::kNumber},
                                      {"mlp.act_fn.beta", "xielu.beta", Make::kNumber},
                                      {"mlp.act_fn.eps", "xielu.eps", Make::kNumber}};
// The rows of a name with a number behind a slash are that part of the tensor's.
inline constexpr Rename kOlmoHybrid[] = {
    {"attention_layer_norm", "attn_norm"},    {"feedforward_layer_norm", "post_attention_norm"},
    {"linear_attn.q_proj", "attn_qkv/0"},     {"linear_attn.k_proj", "attn_qkv/1"},
    {"linear_attn.v_proj", "attn_qkv/2"},     {"linear_attn.q_conv1d", "ssm_conv1d/0"},
    {"linear_attn.k_conv1d", "ssm_conv1d/1"}, {"linear_attn.v_conv1d", "ssm_conv1d/2"},
    {"linear_attn.g_proj", "attn_gate"},      {"linear_attn.b_proj", "ssm_beta"},
    {"linear_attn.a_proj", "ssm_alpha"},      {"linear_attn.o_norm", "ssm_norm"},
    {"linear_attn.o_proj", "ssm_out"}};
inline constexpr Rename kExaone[] = {{"ln_1", "attn_norm"},
                                     {"ln_2", "ffn_norm"},
                                     {"attn.attention.q_proj", "attn_q"},
                                     {"attn.attention.k_proj", "attn_k"},
                                     {"attn.attention.v_proj", "attn_v"},
                                     {"attn.attention.out_proj", "attn_output"},
                                     {"mlp.c_fc_0", "ffn_gate"},
                                     {"mlp.c_fc_1", "ffn_up"},
                                     {"mlp.c_proj", "ffn_down"}};
inline constexpr Rename kHyperClova[] = {{"post_norm1", "post_attention_norm"}, {"post_norm2", "post_ffw_norm"}};
inline constexpr Rename kInternLm2[] = {
    {"attention_norm", "attn_norm"}, {"ffn_norm", "ffn_norm"},        {"attention.wqkv", "attn_qkv", Make::kByHead},
    {"attention.wo", "attn_output"}, {"feed_forward.w1", "ffn_gate"}, {"feed_forward.w3", "ffn_up"},
    {"feed_forward.w2", "ffn_down"}};
inline constexpr Rename kQwen[] = {{"ln_1", "attn_norm"},          {"ln_2", "ffn_norm"},   {"attn.c_attn", "attn_qkv"},
                                   {"attn.c_proj", "attn_output"}, {"mlp.w2", "ffn_gate"}, {"mlp.w1", "ffn_up"},
                                   {"mlp.c_proj", "ffn_down"}};
inline constexpr Rename kBailing[] = {{"attention.query_key_value", "attn_qkv"},
                                      {"attention.dense", "attn_output"},
                                      {"attention.query_layernorm", "attn_q_norm"},
                                      {"attention.key_layernorm", "attn_k_norm"},
                                      {"mlp.gate.expert_bias", "exp_probs_b.bias"}};
inline constexpr Rename kLaguna[] = {{"self_attn.g_proj", "attn_gate"},
                                     {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias"}};
inline constexpr Rename kFalconH1[] = {{"pre_ff_layernorm", "ffn_norm"},
                                       {"feed_forward.gate_proj", "ffn_gate"},
                                       {"feed_forward.up_proj", "ffn_up"},
                                       {"feed_forward.down_proj", "ffn_down"}};
// Published folders have the experts one way round, those that transformers 5 saved again the other.
inline constexpr Rename kQwen3VlMoe[] = {{"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", Make::kEitherWay},
                                         {"mlp.experts.down_proj", "ffn_down_exps.weight", Make::kEitherWay}};
inline constexpr Rename kGemma4[] = {{"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
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
inline constexpr Rename kGlm4[] = {{"post_self_attn_layernorm", "post_attention_norm"},
                                   {"post_mlp_layernorm", "post_ffw_norm"}};
inline constexpr Rename kOfGpt2[] = {{"ln_1", "attn_norm"},
                                     {"ln_2", "ffn_norm"},
                                     {"attn.c_attn", "attn_qkv", Make::kTurned},
                                     {"attn.c_proj", "attn_output", Make::kTurned},
                                     {"mlp.c_fc", "ffn_up", Make::kTurned},
                                     {"mlp.c_proj", "ffn_down", Make::kTurned}};
inline constexpr Rename kGptBigCode[] = {
    {"ln_1", "attn_norm"},          {"ln_2", "ffn_norm"},   {"attn.c_attn", "attn_qkv", Make::kByHead},
    {"attn.c_proj", "attn_output"}, {"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};
inline constexpr Rename kMpt[] = {{"norm_1", "attn_norm"},   {"norm_2", "ffn_norm"},
                                  {"attn.Wqkv", "attn_qkv"}, {"attn.out_proj", "attn_output"},
                                  {"ffn.up_proj", "ffn_up"}, {"ffn.down_proj", "ffn_down"}};
inline constexpr Rename kGptJ[] = {{"ln_1", "attn_norm"},
                                   {"attn.q_proj", "attn_q"},
                                   {"attn.k_proj", "attn_k"},
                                   {"attn.v_proj", "attn_v"},
                                   {"attn.qkv_proj", "attn_qkv", Make::kByFour},
                                   {"mlp.fc_in", "ffn_up"},
                                   {"mlp.fc_out", "ffn_down"},
                                   {"attn.out_proj", "attn_output"}};
inline constexpr Rename kGptOss[] = {{"mlp.router", "ffn_gate_inp"},
                                     {"mlp.experts.gate_up_proj", "ffn_*_exps.weight", Make::kTurns},
                                     {"mlp.experts.gate_up_proj_bias", "ffn_*_exps.bias", Make::kTurns},
                                     {"mlp.experts.down_proj", "ffn_down_exps.weight", Make::kTurned},
                                     {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"}};
inline constexpr Rename kGranite[] = {{"block_sparse_moe.router", "ffn_gate_inp"},
                                      {"block_sparse_moe.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                                      {"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight"},
                                      {"block_sparse_moe.router.layer", "ffn_gate_inp"},
                                      {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
                                      {"block_sparse_moe.output_linear", "ffn_down_exps"},
                                      {"shared_mlp.input_linear", "ffn_*_shexp", Make::kHalves},
                                      {"shared_mlp.output_linear", "ffn_down_shexp"}};
// Without experts the shared one is the only feed forward.
inline constexpr Rename kGraniteDense[] = {{"shared_mlp.input_linear", "ffn_*", Make::kHalves},
                                           {"shared_mlp.output_linear", "ffn_down"}};
inline constexpr Rename kHunyuan[] = {{"self_attn.query_layernorm", "attn_q_norm"},
                                      {"self_attn.key_layernorm", "attn_k_norm"}};
inline constexpr Rename kLfm2[] = {{"operator_norm", "attn_norm"},
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
                                   {"feed_forward.experts.*.w2", "ffn_down_exps"},
                                   // LFM3.
                                   {"post_operator_norm", "post_attention_norm"},
                                   {"post_ffn_norm", "post_ffw_norm"},
                                   {"self_attn.gate_proj", "attn_gate"},
                                   {"self_attn.g_proj", "attn_gate"}};
inline constexpr Rename kLlama4[] = {{"feed_forward.gate_proj", "ffn_gate"},
                                     {"feed_forward.up_proj", "ffn_up"},
                                     {"feed_forward.down_proj", "ffn_down"},
                                     {"feed_forward.router", "ffn_gate_inp"},
                                     {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps.weight", Make::kTurned},
                                     {"feed_forward.experts.down_proj", "ffn_down_exps.weight", Make::kTurned},
                                     {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                                     {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                                     {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"}};
inline constexpr Rename kMixer[] = {{"norm", "attn_norm"},
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
inline constexpr Rename kPhi[] = {{"self_attn.dense", "attn_output"}, {"mlp.fc1", "ffn_up"}, {"mlp.fc2", "ffn_down"}};
inline constexpr Rename kStarcoder2[] = {{"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};
inline constexpr Rename kOpt[] = {{"self_attn_layer_norm", "attn_norm"},
                                  {"final_layer_norm", "ffn_norm"},
                                  {"self_attn.out_proj", "attn_output"},
                                  {"fc1", "ffn_up"},
                                  {"fc2", "ffn_down"}};

inline constexpr Rename kOfModel[] = {{"embed_tokens", "token_embd"},
                                      {"embeddings", "token_embd"},
                                      {"wte", "token_embd"},
                                      {"embed_in", "token_embd"},
                                      {"word_embeddings", "token_embd"},
                                      {"word_embeddings_layernorm", "token_embd_norm"},
                                      {"wpe", "position_embd"},
                                      {"norm", "output_norm"},
                                      {"norm_f", "output_norm"},
                                      {"ln_f", "output_norm"},
                                      {"final_layernorm", "output_norm"},
                                      {"final_layer_norm", "output_norm"},
                                      {"embedding_norm", "token_embd_norm"},
                                      {"embed_positions", "position_embd", Make::kBehindTwo},
                                      {"project_in", "token_embd_in"},
                                      {"project_out", "output_in"},
                                      {"tok_embeddings", "token_embd"},
                                      {"output", "output"},
                                      {"embed_tokens_per_layer", "per_layer_token_embd"},
                                      {"per_layer_model_projection", "per_layer_model_proj"},
                                      {"per_layer_projection_norm", "per_layer_proj_norm"},
                                      {"embed_out", "output"},
                                      {"lm_head", "output"}};

}  // namespace kvasir::weights
