// Qwen 2 and 2.5: biases on q, k and v.
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen2 {

static ModelSpec describe(const Hparams& h) { return qwen_model(h, false); }

const Arch entry = {"Qwen 2 and 2.5", describe};

}  // namespace kvasir::model::archs_qwen2
