// XVERSE: Llama with a vocabulary of its own.
#include "model/blocks.hpp"

namespace kvasir::model::archs_xverse {

static ModelSpec describe(const Hparams& h) { return llama_like_model(h, kernel::RopePairs::kAdjacent); }

const Arch entry{.summary = "XVERSE", .describe = describe, .hub = {{.types = {"xverse"}, .pairs = true}}};

}  // namespace kvasir::model::archs_xverse
