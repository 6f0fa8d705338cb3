// StableLM: layer norms, RoPE on a part of heads; without ffn_norm (12B) attention and feed forward side by side.
#include "model/blocks.hpp"

namespace kvasir::model::archs_stablelm {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).layer_norm("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    layer_norm_heads(n, a);
    const bool two = n.has("ffn_norm");
    m.layers.push_back({.norm = n.layer_norm("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.layer_norm(two ? "ffn_norm" : "attn_norm"),
                        .feed = gated(n, Activation::kSilu),
                        .parallel = !two});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "StableLM", .describe = describe, .hub = {{.types = {"stablelm"}, .turned = 1}}};

}  // namespace kvasir::model::archs_stablelm
