// Arcee (AFM): Llama whose feed forward is two matrices with a squared ReLU between them.
#include "model/blocks.hpp"

namespace kvasir::model::archs_arcee {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = attention(n),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = plain(n, Activation::kRelu2, Bias::kIfPresent)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Arcee (AFM)",
                 .describe = describe,
                 .hub = {{.types = {"arcee"}, .pairs = true, .activation = "relu2"}}};

}  // namespace kvasir::model::archs_arcee
