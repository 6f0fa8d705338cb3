// Qwen3-Next: Qwen 3.5 with experts, whose value heads are grouped by key heads.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_qwen3next {

static Feed feed(const Names& n) { return qwen_experts(n); }
static ModelSpec describe(const Hparams& h) { return delta_model(h, false, feed); }
static LayerSpec block(const Hparams& h, int l) { return delta_layer(h, l, false, feed); }

const Arch entry{.summary = "Qwen3-Next (gated DeltaNet, experts)",
                 .describe = describe,
                 .block = block,
                 .hub = {{.types = {"qwen3_next"},
                          .turned = 1,
                          .one_more = true,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .read = hub::read_delta}}};

}  // namespace kvasir::model::archs_qwen3next
