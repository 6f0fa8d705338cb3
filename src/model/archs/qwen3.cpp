// Qwen 3 (dense): RMS norm of every query and key head before RoPE.
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = stated_window(h, l);
    norm_heads(n, a);
    m.layers.push_back(
        {.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry = {"Qwen 3 (dense)", describe};

}  // namespace kvasir::model::archs_qwen3
