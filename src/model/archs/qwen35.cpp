// Qwen 3.5: gated DeltaNet, and every fourth layer attention with an output gate. Value heads are tiled over key heads.
// post_attention_norm is the norm before the feed forward.
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::entries::archs {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("post_attention_norm")};
    if (is_delta(h, l)) {
      Delta d = delta(n);
      d.tiled = true;
      layer.mixer = d;
    } else {
      layer.mixer = gated_attention(n);
    }
    layer.feed = gated(n, Activation::kSilu);
    m.layers.push_back(layer);
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

extern const Arch qwen35;
const Arch qwen35 = {"Qwen 3.5, 3.6 and 3.8 (gated DeltaNet)", describe};

}  // namespace kvasir::model::entries::archs
