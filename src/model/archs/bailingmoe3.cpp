// Ling 3: Kimi Delta Attention whose decays have a floor, and in some layers latent attention with a gate for every
// head; the first layers are dense, the others experts in groups with a shared one.
#include "hub/config_reader.hpp"
#include "model/latent_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_bailingmoe3 {

static LayerSpec layer(const Hparams& h, int l) {
  const Names n(h, l);
  LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("ffn_norm"), .feed = latent_feed(n, true)};
  if (!h.attends(l)) {
    KeyedDelta d = keyed_delta(n);
    if (h.flag_or("kda.safe_gate", true)) d.floor = static_cast<float>(h.number("kda.gate_lower_bound"));
    layer.mixer = d;
    return layer;
  }
  Attention a = latent_attention(n);
  if (n.has("attn_gate")) a.gate = n.linear("attn_gate", a.heads, h.dim());
  layer.mixer = a;
  return layer;
}

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  m.ropes = {latent_rope(h)};
  for (int l = 0; l < h.layers(); ++l) m.layers.push_back(layer(h, l));
  return m;
}

constexpr hub::Rename kNames[] = {{"attention.q_proj", "attn_q"},
                                  {"attention.k_proj", "attn_k"},
                                  {"attention.v_proj", "attn_v"},
                                  {"attention.dense", "attn_output"},
                                  {"attention.g_proj", "attn_gate"},
                                  {"attention.q_conv1d", "ssm_conv1d_q"},
                                  {"attention.k_conv1d", "ssm_conv1d_k"},
                                  {"attention.v_conv1d", "ssm_conv1d_v"},
                                  {"attention.f_proj", "ssm_f_a"},
                                  {"attention.b_proj", "ssm_beta"},
                                  {"attention.A_log", "ssm_a", hub::Make::kDecay},
                                  {"attention.dt_bias", "ssm_dt.bias"},
                                  {"attention.o_norm", "ssm_norm"},
                                  {"attention.q_a_proj", "attn_q_a"},
                                  {"attention.q_a_layernorm", "attn_q_a_norm"},
                                  {"attention.q_b_proj", "attn_q_b"},
                                  {"attention.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
                                  {"attention.kv_a_layernorm", "attn_kv_a_norm"},
                                  {"attention.kv_b_proj", "attn_kv_b", hub::Make::kLatent},
                                  {"mlp.gate.expert_bias", "exp_probs_b.bias"}};

const Arch entry{.summary = "Ling 3 (Kimi Delta Attention, gated latent attention, experts)",
                 .describe = describe,
                 .hub = {{.types = {"bailing_hybrid"}, .names = kNames, .read = hub::read_bailing_hybrid}}};

}  // namespace kvasir::model::archs_bailingmoe3
