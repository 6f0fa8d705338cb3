// Qwen 3 with experts: qwen3, every feed forward of which is some of many.
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_qwen3moe {

const Arch entry = {"Qwen 3 with experts", qwen3_experts_model};

}  // namespace kvasir::model::archs_qwen3moe
