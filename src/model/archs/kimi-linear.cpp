// Kimi Linear: Kimi Delta Attention, and in some layers latent attention without positions; the first layers are dense,
// the others experts.
#include "hub/config_reader.hpp"
#include "model/latent_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_kimi_linear {

static LayerSpec layer(const Hparams& h, int l) {
  const Names n(h, l);
  LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("ffn_norm"), .feed = latent_feed(n, true)};
  if (!h.attends(l)) {
    layer.mixer = keyed_delta(n);
    return layer;
  }
  Attention a = latent_attention(n);
  a.rope = -1;
  a.k_norm.eps = 1e-6f;  // the class's own, whatever the others are
  a.latent.down_norm.eps = 1e-6f;
  layer.mixer = a;
  return layer;
}

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) m.layers.push_back(layer(h, l));
  return m;
}

// transformers calls the first layers' feed forwards block_sparse_moe when it saves, published folders mlp.
constexpr hub::Rename kNames[] = {{"self_attn.q_conv1d", "ssm_conv1d_q"},
                                  {"self_attn.k_conv1d", "ssm_conv1d_k"},
                                  {"self_attn.v_conv1d", "ssm_conv1d_v"},
                                  {"self_attn.f_a_proj", "ssm_f_a"},
                                  {"self_attn.f_b_proj", "ssm_f_b"},
                                  {"self_attn.g_a_proj", "ssm_g_a"},
                                  {"self_attn.g_b_proj", "ssm_g_b"},
                                  {"self_attn.b_proj", "ssm_beta"},
                                  {"self_attn.A_log", "ssm_a", hub::Make::kDecay},
                                  {"self_attn.dt_bias", "ssm_dt.bias"},
                                  {"self_attn.o_norm", "ssm_norm"},
                                  {"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias"},
                                  {"block_sparse_moe.gate_proj", "ffn_gate"},
                                  {"block_sparse_moe.up_proj", "ffn_up"},
                                  {"block_sparse_moe.down_proj", "ffn_down"},
                                  {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp"},
                                  {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp"},
                                  {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp"}};

const Arch entry{.summary = "Kimi Linear (Kimi Delta Attention, latent attention, experts)",
                 .describe = describe,
                 .hub = {{.types = {"kimi_linear"}, .names = kNames, .read = hub::read_kimi_linear}}};

}  // namespace kvasir::model::archs_kimi_linear
