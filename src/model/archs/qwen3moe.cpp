// Qwen 3 with experts: qwen3, every feed forward of which is some of many.
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_qwen3moe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = stated_window(h, l);
    norm_heads(n, a);
    Experts e = experts(n, expert_width(h, h.ffn(l) / h.integer("expert_used_count", 1, kernel::kMostUsed)));
    e.routing.normalise = h.flag_or("expert_weights_norm", true);
    m.layers.push_back({.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = e});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry = {"Qwen 3 with experts", describe};

}  // namespace kvasir::model::archs_qwen3moe
