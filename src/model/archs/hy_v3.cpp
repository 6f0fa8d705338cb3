// Hunyuan 3: norms of heads; a dense layer, then experts beside a shared one, scored by sigmoid.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_hy_v3 {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    return normed_before(n, a, feed_by_router(n, Gating::kSigmoid, true));
  });
}

const Arch entry{.summary = "Hunyuan 3",
                 .describe = describe,
                 .hub = {{.types = {"hy_v3"}, .names = hub::kAfmoe, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_hy_v3
