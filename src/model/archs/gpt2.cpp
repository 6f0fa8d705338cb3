// GPT-2: learned positions, layer norms and biases everywhere.
#include "model/blocks.hpp"

namespace kvasir::model::archs_gpt2 {

const Arch entry = {"GPT-2", gpt2_model};

}  // namespace kvasir::model::archs_gpt2
