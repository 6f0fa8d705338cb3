// The text half of Qwen 2 VL and 2.5 VL.
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen2vl {

static ModelSpec describe(const Hparams& h) { return qwen_model(h, false); }

const Arch entry{.summary = "Qwen 2 VL and 2.5 VL (text)", .describe = describe};

}  // namespace kvasir::model::archs_qwen2vl
