// Ling 3: Kimi Delta Attention whose decays have a floor, and in some layers latent attention with a gate for every
// head; the first layers are dense, the others experts in groups with a shared one.
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

const Arch entry = {"Ling 3 (Kimi Delta Attention, gated latent attention, experts)", describe};

}  // namespace kvasir::model::archs_bailingmoe3
