// Kimi Linear: Kimi Delta Attention, and in some layers latent attention without positions; the first layers are dense,
// the others experts.
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

const Arch entry = {"Kimi Linear (Kimi Delta Attention, latent attention, experts)", describe};

}  // namespace kvasir::model::archs_kimi_linear
