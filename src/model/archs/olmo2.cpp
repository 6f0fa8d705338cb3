// OLMo 2 and 3: norms behind attention and feed forward only, and of all query heads together. OLMo 3 has three layers
// with a window and plain RoPE, then one that sees everything.
#include "model/blocks.hpp"

namespace kvasir::model::archs_olmo2 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.q_norm = n.rms("attn_q_norm", a.q.rows);
    a.k_norm = n.rms("attn_k_norm", a.k.rows);
    a.window = h.window(l, 4);
    a.rope = a.window > 0 ? 1 : 0;
    m.layers.push_back({.mixer = a,
                        .post_mixer = n.rms("post_attention_norm"),
                        .feed = gated(n, Activation::kSilu),
                        .post_feed = n.rms("post_ffw_norm")});
  }
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  m.ropes = {h.rope(kPairs, h.head_dim(0))};
  if (h.window(0, 4) > 0) m.ropes.push_back(h.plain_rope(kPairs, h.head_dim(0)));
  return m;
}

const Arch entry{.summary = "OLMo 2 and 3",
                 .describe = describe,
                 .hub = {{.types = {"olmo2", "olmo3"}, .post_norms = true, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_olmo2
