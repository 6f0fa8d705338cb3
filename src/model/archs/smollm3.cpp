// SmolLM3: Llama in which every fourth layer has no positions.
#include "model/blocks.hpp"

namespace kvasir::model::archs_smollm3 {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    Attention a = attention(n);
    a.window = stated_window(h, n.layer());
    a.rope = (n.layer() + 1) % 4 == 0 ? -1 : 0;
    return normed_before(n, a, gated(n, Activation::kSilu));
  });
}

const Arch entry{.summary = "SmolLM3",
                 .describe = describe,
                 .hub = {{.types = {"smollm3"}, .pairs = true, .window = hub::Window::kStated}}};

}  // namespace kvasir::model::archs_smollm3
