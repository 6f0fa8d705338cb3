// Mellum 2: Qwen 3 with experts, of whose layers some have a window and plain RoPE with a base of its own.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_mellum {

static ModelSpec describe(const Hparams& h) {
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  ModelSpec m = layered(h, kPairs, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(n.layer(), 4);
    a.rope = a.window > 0 ? 1 : 0;
    return normed_before(n, a, feed_by_router(n, Gating::kSoftmax, true));
  });
  m.ropes.push_back(h.plain_rope(kPairs, h.head_dim(0), h.number_or("rope.freq_base_swa", 0.0)));
  return m;
}

const Arch entry{.summary = "Mellum 2",
                 .describe = describe,
                 .hub = {{.types = {"mellum"}, .turned = 1, .window = hub::Window::kOwn, .read = hub::read_mellum}}};

}  // namespace kvasir::model::archs_mellum
