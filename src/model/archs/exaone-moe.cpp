// EXAONE MoE (K-EXAONE): norms of heads; three layers with a window and RoPE, then one that sees everything without
// positions; experts beside a shared one behind the first layers.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_exaone_moe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  const bool windows = h.integer_or("attention.sliding_window", 0, std::int64_t{1} << 40, 0) > 0;
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(l, 4);
    if (windows && a.window == 0) a.rope = -1;
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = feed_by_router(n, Gating::kSigmoid, true)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "EXAONE MoE",
                 .describe = describe,
                 .hub = {{.types = {"exaone_moe"}, .window = hub::Window::kOwn, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_exaone_moe
