// Qwen 3 with experts: qwen3, every feed forward of which is some of many.
#include "model/expert_blocks.hpp"
#include "weights/safetensors/config_reader.hpp"

namespace kvasir::model::archs_qwen3moe {

// Published folders have the experts one way round, those that transformers 5 saved again the other.
constexpr weights::Rename kNames[] = {
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", weights::Make::kEitherWay},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", weights::Make::kEitherWay}};

const Arch entry{.summary = "Qwen 3 with experts",
                 .describe = qwen3_experts_model,
                 .hub = {{.types = {"qwen3_moe"}, .window = weights::Window::kStated, .read = weights::read_experts},
                         {.types = {"qwen3_vl_moe_text"},
                          .window = weights::Window::kStated,
                          .names = kNames,
                          .read = weights::read_experts}}};

}  // namespace kvasir::model::archs_qwen3moe
