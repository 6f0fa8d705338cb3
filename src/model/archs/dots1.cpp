// dots.llm1: norms of heads; the first layers are dense, the others experts beside a shared one, scored by sigmoid.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_dots1 {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = stated_window(h, n.layer());
    return normed_before(n, a, feed_by_router(n, Gating::kSigmoid, false));
  });
}

const Arch entry{.summary = "dots.llm1",
                 .describe = describe,
                 .hub = {{.types = {"dots1"}, .window = hub::Window::kStated, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_dots1
