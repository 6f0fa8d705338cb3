// Qwen 3 with experts: qwen3, every feed forward of which is some of many.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_qwen3moe {

// Published folders have the experts one way round, those that transformers 5 saved again the other.
constexpr hub::Rename kNames[] = {{"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", hub::Make::kEitherWay},
                                  {"mlp.experts.down_proj", "ffn_down_exps.weight", hub::Make::kEitherWay}};

const Arch entry{
    .summary = "Qwen 3 with experts",
    .describe = qwen3_experts_model,
    .hub = {
        {.types = {"qwen3_moe"}, .window = hub::Window::kStated, .read = hub::read_experts},
        {.types = {"qwen3_vl_moe_text"}, .window = hub::Window::kStated, .names = kNames, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_qwen3moe
