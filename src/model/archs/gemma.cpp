// Gemma: embeddings times sqrt(dim), a head size of its own. The file's norms have the 1 added.
#include <cmath>

#include "model/blocks.hpp"

namespace kvasir::model::archs_gemma {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    return normed_before(n, attention(n), gated(n, Activation::kGeluTanh));
  });
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  return m;
}

const Arch entry{.summary = "Gemma 1",
                 .describe = describe,
                 .hub = {{.types = {"gemma"}, .one_more = true, .activation = "gelu_pytorch_tanh"}}};

}  // namespace kvasir::model::archs_gemma
