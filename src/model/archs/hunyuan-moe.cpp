// Hunyuan with experts: RMS norm of every query and key head after RoPE, and a shared expert.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_hunyuan_moe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.norm_after_rope = true;
    Experts e = experts(n, expert_width(h, h.ffn(l)));
    const std::int64_t shared = h.integer_or("expert_shared_feed_forward_length", 0, 1 << 24, 0);
    e.shared = shared_expert(n, shared > 0 ? shared : h.ffn(l));
    m.layers.push_back({.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = e});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Hunyuan with experts",
                 .describe = describe,
                 .hub = {{.types = {"hunyuan_v1_moe"}, .names = hub::kHunyuan, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_hunyuan_moe
