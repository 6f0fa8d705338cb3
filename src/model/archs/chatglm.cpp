// GLM-4 of 2024 (9B) and ChatGLM 3: a fused gate, RoPE on adjacent pairs of a part of heads.
#include "model/blocks.hpp"

namespace kvasir::model::archs_chatglm {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kAdjacent,
                 [&](const Names& n) { return normed_before(n, attention(n), fused_gated(n, Activation::kSilu)); });
}

const Arch entry{.summary = "GLM-4 9B, ChatGLM 3", .describe = describe, .hub = {{.types = {"glm"}, .turned = 0.5}}};

}  // namespace kvasir::model::archs_chatglm
