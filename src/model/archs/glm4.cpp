// GLM-4: norms before and behind attention and feed forward, a fused gate, RoPE on a part of heads.
#include "model/blocks.hpp"

namespace kvasir::model::archs_glm4 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = attention(n),
                        .post_mixer = n.rms("post_attention_norm"),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = fused_gated(n, Activation::kSilu),
                        .post_feed = n.rms("post_ffw_norm")});
  }
  // Models of pictures have positions of three parts, which are equal in texts, and rows that the converter has moved.
  const auto pairs = h.has("rope.dimension_sections") ? kernel::RopePairs::kSplitHalf : kernel::RopePairs::kAdjacent;
  m.ropes = {h.rope(pairs, h.head_dim(0))};
  return m;
}

constexpr hub::Rename kNames[] = {{"post_self_attn_layernorm", "post_attention_norm"},
                                  {"post_mlp_layernorm", "post_ffw_norm"}};

const Arch entry{
    .summary = "GLM-4", .describe = describe, .hub = {{.types = {"glm4", "glm4v_text"}, .turned = 1, .names = kNames}}};

}  // namespace kvasir::model::archs_glm4
