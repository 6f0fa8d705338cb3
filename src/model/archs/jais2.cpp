// Jais 2: Nemotron with biases everywhere and RoPE on whole heads.
#include "model/blocks.hpp"

namespace kvasir::model::archs_jais2 {

const Arch entry = {"Jais 2", nemotron_model};

}  // namespace kvasir::model::archs_jais2
