// dots.llm1: norms of heads; the first layers are dense, the others experts beside a shared one, scored by sigmoid.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_dots1 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = stated_window(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = feed_by_router(n, Gating::kSigmoid, false)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "dots.llm1",
                 .describe = describe,
                 .hub = {{.types = {"dots1"}, .window = hub::Window::kStated, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_dots1
