// EXAONE 4: norms behind attention and feed forward only, and of heads. With a window (32B) three layers have it and
// RoPE, then one sees everything without positions.
#include "model/blocks.hpp"

namespace kvasir::model::archs_exaone4 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  const std::int64_t fallback = h.layers() == 64 ? 4096 : 0;  // 32B
  const bool windows = h.window(0, 4, fallback) > 0;
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(l, 4, fallback);
    if (windows && a.window == 0) a.rope = -1;
    m.layers.push_back({.mixer = a,
                        .post_mixer = n.rms("post_attention_norm"),
                        .feed = gated(n, Activation::kSilu),
                        .post_feed = n.rms("post_ffw_norm")});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "EXAONE 4",
                 .describe = describe,
                 .hub = {{.types = {"exaone4"}, .post_norms = true, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_exaone4
