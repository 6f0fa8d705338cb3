// OLMoE: experts in every layer whose weights are not divided by their sum; norms of all query heads together.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_olmoe {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_all_heads(n, a);
    Experts e = experts(n, expert_width(h, h.ffn(n.layer())));
    e.routing.normalise = h.flag_or("expert_weights_norm", false);
    return normed_before(n, a, e);
  });
}

const Arch entry{.summary = "OLMoE", .describe = describe, .hub = {{.types = {"olmoe"}, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_olmoe
