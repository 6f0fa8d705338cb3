// GLM-4 of 2024 (9B) and ChatGLM 3: a fused gate, RoPE on adjacent pairs of a part of heads.
#include "model/blocks.hpp"

namespace kvasir::model::archs_chatglm {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = attention(n),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = fused_gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "GLM-4 9B, ChatGLM 3", .describe = describe, .hub = {{.types = {"glm"}, .turned = 0.5}}};

}  // namespace kvasir::model::archs_chatglm
