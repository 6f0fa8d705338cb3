// Gemma 3 (arXiv:2503.19786): five layers with a window and RoPE of their own, then one that sees everything.
#include "model/blocks.hpp"

namespace kvasir::model::archs_gemma3 {

const Arch entry = {"Gemma 3 (text)", gemma3_model};

}  // namespace kvasir::model::archs_gemma3
