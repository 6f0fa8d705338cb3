// Qwen 3.5: gated DeltaNet, and every fourth layer attention with an output gate. Value heads are tiled over key heads.
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::entries::archs {

static ModelSpec describe(const Hparams& h) {
  return delta_model(h, true, [](const Names& n) -> Feed { return gated(n, Activation::kSilu); });
}

extern const Arch qwen35;
const Arch qwen35 = {"Qwen 3.5, 3.6 and 3.8 (gated DeltaNet)", describe};

}  // namespace kvasir::model::entries::archs
