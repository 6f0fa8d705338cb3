// Jais 2: Nemotron with biases everywhere and RoPE on whole heads.
#include "model/blocks.hpp"

namespace kvasir::model::archs_jais2 {

const Arch entry{.summary = "Jais 2", .describe = nemotron_model, .hub = {{.types = {"jais2"}, .activation = "relu2"}}};

}  // namespace kvasir::model::archs_jais2
