// EXAONE 3 and 3.5: Llama with other pairs in RoPE.
#include "model/blocks.hpp"

namespace kvasir::model::archs_exaone {

static ModelSpec describe(const Hparams& h) { return llama_like_model(h, kernel::RopePairs::kSplitHalf); }

const Arch entry = {"EXAONE 3 and 3.5", describe};

}  // namespace kvasir::model::archs_exaone
