// Gemma 3 (arXiv:2503.19786): five layers with a window and RoPE of their own, then one that sees everything.
#include "model/blocks.hpp"

namespace kvasir::model::archs_gemma3 {

const Arch entry{.summary = "Gemma 3 (text)",
                 .describe = gemma3_model,
                 .hub = {{.types = {"gemma3", "gemma3_text"},
                          .one_more = true,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .activation = "gelu_pytorch_tanh"}}};

}  // namespace kvasir::model::archs_gemma3
