// Qwen 3.5 with experts and a shared expert whose part a gate of its own decides.
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::entries::archs {

static ModelSpec describe(const Hparams& h) {
  return delta_model(h, true, [](const Names& n) -> Feed { return qwen_experts(n); });
}

extern const Arch qwen35moe;
const Arch qwen35moe = {"Qwen 3.5 and later with experts", describe};

}  // namespace kvasir::model::entries::archs
