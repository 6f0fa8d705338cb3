// EXAONE 4: norms behind attention and feed forward only, and of heads. With a window (32B) three layers have it and
// RoPE, then one sees everything without positions.
#include "model/blocks.hpp"

namespace kvasir::model::archs_exaone4 {

static ModelSpec describe(const Hparams& h) {
  const std::int64_t fallback = h.layers() == 64 ? 4096 : 0;  // 32B
  const bool windows = h.window(0, 4, fallback) > 0;
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(n.layer(), 4, fallback);
    if (windows && a.window == 0) a.rope = -1;
    return normed_behind(n, a, gated(n, Activation::kSilu));
  });
}

const Arch entry{.summary = "EXAONE 4",
                 .describe = describe,
                 .hub = {{.types = {"exaone4"}, .post_norms = true, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_exaone4
