// OLMoE: experts in every layer whose weights are not divided by their sum; norms of all query heads together.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_olmoe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.q_norm = n.rms("attn_q_norm", a.q.rows);
    a.k_norm = n.rms("attn_k_norm", a.k.rows);
    Experts e = experts(n, expert_width(h, h.ffn(l)));
    e.routing.normalise = h.flag_or("expert_weights_norm", false);
    m.layers.push_back({.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = e});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "OLMoE", .describe = describe, .hub = {{.types = {"olmoe"}, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_olmoe
