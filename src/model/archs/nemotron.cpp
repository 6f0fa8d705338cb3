// Nemotron 3 and 4, Minitron: layer norms, RoPE on a part of heads, a squared ReLU between two matrices.
#include "model/blocks.hpp"

namespace kvasir::model::archs_nemotron {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).layer_norm("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.layer_norm("attn_norm"),
                        .mixer = attention(n),
                        .feed_norm = n.layer_norm("ffn_norm"),
                        .feed = plain(n, Activation::kRelu2, Bias::kIfPresent)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry = {"Nemotron 3 and 4, Minitron", describe};

}  // namespace kvasir::model::archs_nemotron
