// OLMo 2 and 3: norms behind attention and feed forward only, and of all query heads together. OLMo 3 has three layers
// with a window and plain RoPE, then one that sees everything.
#include "model/blocks.hpp"

namespace kvasir::model::archs_olmo2 {

static ModelSpec describe(const Hparams& h) {
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  ModelSpec m = layered(h, kPairs, [&](const Names& n) {
    Attention a = attention(n);
    norm_all_heads(n, a);
    a.window = h.window(n.layer(), 4);
    a.rope = a.window > 0 ? 1 : 0;
    return normed_behind(n, a, gated(n, Activation::kSilu));
  });
  if (h.window(0, 4) > 0) m.ropes.push_back(h.plain_rope(kPairs, h.head_dim(0)));
  return m;
}

const Arch entry{.summary = "OLMo 2 and 3",
                 .describe = describe,
                 .hub = {{.types = {"olmo2", "olmo3"}, .post_norms = true, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_olmo2
