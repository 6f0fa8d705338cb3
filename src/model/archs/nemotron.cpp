// Nemotron 3 and 4, Minitron: layer norms, RoPE on a part of heads, a squared ReLU between two matrices.
#include "model/blocks.hpp"

namespace kvasir::model::archs_nemotron {

const Arch entry = {"Nemotron 3 and 4, Minitron", nemotron_model};

}  // namespace kvasir::model::archs_nemotron
