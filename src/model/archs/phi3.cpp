// Phi 3 to 4-mini (arXiv:2404.14219): fused matrices, LongRoPE, in some files a window in all layers.
#include "model/blocks.hpp"

namespace kvasir::model::archs_phi3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  std::int64_t window = h.window(0, 0);
  if (window >= h.context()) window = 0;  // hides nothing that the model was trained for
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = fused_attention(n);
    a.window = window;
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = fused_gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Phi 3, 3.5, 4 and 4-mini",
                 .describe = describe,
                 .hub = {{.types = {"phi3"}, .turned = 1, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_phi3
