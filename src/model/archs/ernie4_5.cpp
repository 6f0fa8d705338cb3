// ERNIE 4.5, dense: Llama with optional biases.
#include "model/blocks.hpp"

namespace kvasir::model::archs_ernie4_5 {

static ModelSpec describe(const Hparams& h) { return llama_like_model(h, kernel::RopePairs::kAdjacent); }

const Arch entry{.summary = "ERNIE 4.5 (dense)", .describe = describe, .hub = {{.types = {"ernie4_5"}}}};

}  // namespace kvasir::model::archs_ernie4_5
