// Qwen 2 and 2.5: biases on q, k and v.
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen2 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n, Bias::kRequired);
    a.window = stated_window(h, l);
    m.layers.push_back(
        {.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry = {"Qwen 2 and 2.5", describe};

}  // namespace kvasir::model::archs_qwen2
