// Gemma: embeddings times sqrt(dim), a head size of its own. The file's norms have the 1 added.
#include <cmath>

#include "model/blocks.hpp"

namespace kvasir::model::archs_gemma {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = attention(n),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = gated(n, Activation::kGeluTanh)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Gemma 1",
                 .describe = describe,
                 .hub = {{.types = {"gemma"}, .one_more = true, .activation = "gelu_pytorch_tanh"}}};

}  // namespace kvasir::model::archs_gemma
