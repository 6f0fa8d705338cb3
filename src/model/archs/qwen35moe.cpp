// Qwen 3.5 with experts and a shared expert whose part a gate of its own decides.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_qwen35moe {

static Feed feed(const Names& n) { return qwen_experts(n); }
static ModelSpec describe(const Hparams& h) { return delta_model(h, true, feed); }
static LayerSpec block(const Hparams& h, int l) { return delta_layer(h, l, true, feed); }

const Arch entry{.summary = "Qwen 3.5 and later with experts",
                 .describe = describe,
                 .block = block,
                 .hub = {{.types = {"qwen3_5_moe", "qwen3_5_moe_text"},
                          .turned = 1,
                          .one_more = true,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .read = hub::read_delta}}};

}  // namespace kvasir::model::archs_qwen35moe
