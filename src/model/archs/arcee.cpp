// Arcee (AFM): Llama whose feed forward is two matrices with a squared ReLU between them.
#include "model/blocks.hpp"

namespace kvasir::model::archs_arcee {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    return normed_before(n, attention(n), plain(n, Activation::kRelu2, Bias::kIfPresent));
  });
}

const Arch entry{.summary = "Arcee (AFM)",
                 .describe = describe,
                 .hub = {{.types = {"arcee"}, .pairs = true, .activation = "relu2"}}};

}  // namespace kvasir::model::archs_arcee
