// Muse Glimmer: three layers with a window and RoPE, then one that sees everything and has no positions; a gate for
// every element of attention's heads; norms behind attention and feed forward, too.
#include "model/blocks.hpp"

namespace kvasir::model::archs_muse_glimmer {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.gate = n.linear("attn_gate", a.o.columns, h.dim());
    a.window = h.window(n.layer(), 4);
    if (a.window == 0) a.rope = -1;
    const auto post = [&](const char* name) {
      Norm norm = n.rms(name);
      norm.eps = 1e-8f;  // of these alone, whatever the file says of the others
      return norm;
    };
    return LayerSpec{.norm = n.rms("attn_norm"),
                     .mixer = a,
                     .post_mixer = post("post_attention_norm"),
                     .feed_norm = n.rms("ffn_norm"),
                     .feed = gated(n, Activation::kSilu),
                     .post_feed = post("post_ffw_norm")};
  });
  m.embedding.norm = {.kind = NormKind::kRms, .width = h.dim(), .eps = h.rms_eps()};
  m.head.scale = static_cast<float>(h.number_or("logit_scale", 1.0));
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 0.0));
  return m;
}

const Arch entry{.summary = "Muse Glimmer", .describe = describe};

}  // namespace kvasir::model::archs_muse_glimmer
