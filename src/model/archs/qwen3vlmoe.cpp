// The text half of Qwen 3 VL with experts.
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_qwen3vlmoe {

const Arch entry{.summary = "Qwen 3 VL with experts (text)", .describe = qwen3_experts_model};

}  // namespace kvasir::model::archs_qwen3vlmoe
