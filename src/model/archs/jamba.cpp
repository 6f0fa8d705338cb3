// Jamba: Mamba, and in some layers attention without positions; feed forwards, and in some layers experts.
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_jamba {

static Feed feed(const Names& n) {
  if (!n.has("ffn_gate_inp")) return gated(n, Activation::kSilu);
  Experts e = experts(n, expert_width(n.h(), n.h().ffn(n.layer())));
  read_gating(n, Gating::kSoftmax, false, e);
  return e;
}

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("ffn_norm"), .feed = feed(n)};
    if (h.attends(l)) {
      Attention a = attention(n);
      a.rope = -1;
      layer.mixer = a;
    } else {
      layer.mixer = model::mamba(n);
    }
    m.layers.push_back(layer);
  }
  return m;
}

const Arch entry = {"Jamba (Mamba, attention, experts)", describe};

}  // namespace kvasir::model::archs_jamba
