// MiniMax M2: experts in every layer, by sigmoid and with a bias for the choice; norms of all query heads together;
// RoPE on half a head.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_minimax_m2 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.q_norm = n.rms("attn_q_norm", a.q.rows);
    a.k_norm = n.rms("attn_k_norm", a.k.rows);
    Experts e = experts(n, expert_width(h, h.ffn(l)));
    read_gating(n, Gating::kSigmoid, true, e);
    m.layers.push_back({.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = e});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "MiniMax M2",
                 .describe = describe,
                 .hub = {{.types = {"minimax_m2"}, .turned = 1, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_minimax_m2
