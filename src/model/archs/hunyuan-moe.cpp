// Hunyuan with experts: RMS norm of every query and key head after RoPE, and a shared expert.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_hunyuan_moe {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.norm_after_rope = true;
    Experts e = experts(n, expert_width(h, h.ffn(n.layer())));
    const std::int64_t shared = h.integer_or("expert_shared_feed_forward_length", 0, 1 << 24, 0);
    e.shared = shared_expert(n, shared > 0 ? shared : h.ffn(n.layer()));
    return normed_before(n, a, e);
  });
}

const Arch entry{.summary = "Hunyuan with experts",
                 .describe = describe,
                 .hub = {{.types = {"hunyuan_v1_moe"}, .names = hub::kHunyuan, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_hunyuan_moe
