// MiniMax M2: experts in every layer, by sigmoid and with a bias for the choice; norms of all query heads together;
// RoPE on half a head.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_minimax_m2 {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_all_heads(n, a);
    Experts e = experts(n, expert_width(h, h.ffn(n.layer())));
    read_gating(n, Gating::kSigmoid, true, e);
    return normed_before(n, a, e);
  });
}

const Arch entry{.summary = "MiniMax M2",
                 .describe = describe,
                 .hub = {{.types = {"minimax_m2"}, .turned = 1, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_minimax_m2
