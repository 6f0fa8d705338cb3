// ERNIE 4.5, dense: Llama with optional biases.
#include "model/blocks.hpp"

namespace kvasir::model::archs_ernie4_5 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = attention(n),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "ERNIE 4.5 (dense)", .describe = describe, .hub = {{.types = {"ernie4_5"}}}};

}  // namespace kvasir::model::archs_ernie4_5
