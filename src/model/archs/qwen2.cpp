// Qwen 2 and 2.5: biases on q, k and v.
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen2 {

static ModelSpec describe(const Hparams& h) { return qwen_model(h, false); }

const Arch entry{.summary = "Qwen 2 and 2.5",
                 .describe = describe,
                 .hub = {{.types = {"qwen2", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl", "qwen2_vl_text"},
                          .window = hub::Window::kStated}}};

}  // namespace kvasir::model::archs_qwen2
