// GLM-4: norms before and behind attention and feed forward, a fused gate, RoPE on a part of heads.
#include "model/blocks.hpp"

namespace kvasir::model::archs_glm4 {

static ModelSpec describe(const Hparams& h) {
  // Models of pictures have positions of three parts, which are equal in texts, and rows that the converter has moved.
  const auto pairs = h.has("rope.dimension_sections") ? kernel::RopePairs::kSplitHalf : kernel::RopePairs::kAdjacent;
  return layered(h, pairs,
                 [](const Names& n) { return normed_around(n, attention(n), fused_gated(n, Activation::kSilu)); });
}

constexpr hub::Rename kNames[] = {{"post_self_attn_layernorm", "post_attention_norm"},
                                  {"post_mlp_layernorm", "post_ffw_norm"}};

const Arch entry{
    .summary = "GLM-4", .describe = describe, .hub = {{.types = {"glm4", "glm4v_text"}, .turned = 1, .names = kNames}}};

}  // namespace kvasir::model::archs_glm4
