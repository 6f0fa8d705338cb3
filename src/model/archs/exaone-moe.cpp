// EXAONE MoE (K-EXAONE): norms of heads; three layers with a window and RoPE, then one that sees everything without
// positions; experts beside a shared one behind the first layers.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_exaone_moe {

static ModelSpec describe(const Hparams& h) {
  const bool windows = h.integer_or("attention.sliding_window", 0, std::int64_t{1} << 40, 0) > 0;
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(n.layer(), 4);
    if (windows && a.window == 0) a.rope = -1;
    return normed_before(n, a, feed_by_router(n, Gating::kSigmoid, true));
  });
}

const Arch entry{.summary = "EXAONE MoE",
                 .describe = describe,
                 .hub = {{.types = {"exaone_moe"}, .window = hub::Window::kOwn, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_exaone_moe
