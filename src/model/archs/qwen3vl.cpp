// The text half of Qwen 3 VL.
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen3vl {

static ModelSpec describe(const Hparams& h) { return qwen_model(h, true); }

const Arch entry{.summary = "Qwen 3 VL (text)", .describe = describe};

}  // namespace kvasir::model::archs_qwen3vl
