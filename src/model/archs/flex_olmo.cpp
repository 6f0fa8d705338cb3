// FlexOlmo: OLMo 2 with experts. Only folders have it.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_flex_olmo {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_all_heads(n, a);
    return normed_behind(n, a, feed_by_router(n, Gating::kSoftmax, false));
  });
}

const Arch entry{
    .summary = "FlexOlmo",
    .describe = describe,
    .hub = {{.types = {"flex_olmo"}, .post_norms = true, .window = hub::Window::kOwn, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_flex_olmo
