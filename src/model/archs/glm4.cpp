// GLM-4: norms before and behind attention and feed forward, a fused gate, RoPE on a part of heads.
#include "model/blocks.hpp"

namespace kvasir::model::archs_glm4 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  if (h.has("rope.dimension_sections"))
    h.unsupported("rope.dimension_sections", "is for images, which are not supported");
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = attention(n, Bias::kIfPresent),
                        .post_mixer = n.rms("post_attention_norm"),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = fused_gated(n, Activation::kSilu),
                        .post_feed = n.rms("post_ffw_norm")});
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry = {"GLM-4", describe};

}  // namespace kvasir::model::archs_glm4
