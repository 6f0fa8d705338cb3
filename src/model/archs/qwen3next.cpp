// Qwen3-Next: Qwen 3.5 with experts, whose value heads are grouped by key heads.
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::entries::archs {

static ModelSpec describe(const Hparams& h) {
  return delta_model(h, false, [](const Names& n) -> Feed { return qwen_experts(n); });
}

extern const Arch qwen3next;
const Arch qwen3next = {"Qwen3-Next (gated DeltaNet, experts)", describe};

}  // namespace kvasir::model::entries::archs
