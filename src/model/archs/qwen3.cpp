// Qwen 3 (dense): RMS norm of every query and key head before RoPE.
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen3 {

static ModelSpec describe(const Hparams& h) { return qwen_model(h, true); }

const Arch entry{.summary = "Qwen 3 (dense)",
                 .describe = describe,
                 .hub = {{.types = {"qwen3", "qwen3_vl_text"}, .window = hub::Window::kStated}}};

}  // namespace kvasir::model::archs_qwen3
