// Phi-3.5-MoE and Phi-mini-MoE: layer norms, biases, LongRoPE; two experts by SparseMixer.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_phimoe {

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Experts e = experts(n, expert_width(h, h.ffn(n.layer())));
    if (e.routing.used != 2 || e.routing.count < 2) h.unsupported("expert_used_count", "is not 2 of at least 2");
    e.routing.gating = Gating::kSparseMixer;
    e.routing.jitter = static_cast<float>(h.number_or("router_jitter", 0.01));  // which files do not say
    return layer_normed_before(n, attention(n), e);
  });
}

const Arch entry{
    .summary = "Phi-3.5-MoE", .describe = describe, .hub = {{.types = {"phimoe"}, .read = hub::read_phimoe}}};

}  // namespace kvasir::model::archs_phimoe
