// StableLM: layer norms, RoPE on a part of heads; without ffn_norm (12B) attention and feed forward side by side.
#include "model/blocks.hpp"

namespace kvasir::model::archs_stablelm {

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    layer_norm_heads(n, a);
    const bool two = n.has("ffn_norm");
    return LayerSpec{.norm = n.layer_norm("attn_norm"),
                     .mixer = a,
                     .feed_norm = n.layer_norm(two ? "ffn_norm" : "attn_norm"),
                     .feed = gated(n, Activation::kSilu),
                     .parallel = !two};
  });
}

const Arch entry{.summary = "StableLM", .describe = describe, .hub = {{.types = {"stablelm"}, .turned = 1}}};

}  // namespace kvasir::model::archs_stablelm
