// Phi 3 to 4-mini (arXiv:2404.14219): fused matrices, LongRoPE, in some files a window in all layers.
#include "model/blocks.hpp"

namespace kvasir::model::archs_phi3 {

static ModelSpec describe(const Hparams& h) {
  std::int64_t window = h.window(0, 0);
  if (window >= h.context()) window = 0;  // hides nothing that the model was trained for
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = fused_attention(n);
    a.window = window;
    return normed_before(n, a, fused_gated(n, Activation::kSilu));
  });
}

const Arch entry{.summary = "Phi 3, 3.5, 4 and 4-mini",
                 .describe = describe,
                 .hub = {{.types = {"phi3"}, .turned = 1, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_phi3
