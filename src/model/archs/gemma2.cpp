// Gemma 2 (arXiv:2408.00118): every other layer has a window, scores and logits are capped, norms stand before and
// after.
#include <cmath>

#include "model/blocks.hpp"

namespace kvasir::model::archs_gemma2 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    a.soft_cap = static_cast<float>(h.number_or("attn_logit_softcapping", 50.0));
    a.window = h.window(n.layer(), 2, 4096);
    if (h.layers() == 46) a.scale = 1.0f / std::sqrt(static_cast<float>(h.dim() / a.heads));  // 27B
    return normed_around(n, a, gated(n, Activation::kGeluTanh));
  });
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 30.0));
  return m;
}

const Arch entry{.summary = "Gemma 2",
                 .describe = describe,
                 .hub = {{.types = {"gemma2"},
                          .one_more = true,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .activation = "gelu_pytorch_tanh"}}};

}  // namespace kvasir::model::archs_gemma2
