// Nemotron 3 and 4, Minitron: layer norms, RoPE on a part of heads, a squared ReLU between two matrices.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_nemotron {

const Arch entry{
    .summary = "Nemotron 3 and 4, Minitron",
    .describe = nemotron_model,
    .hub = {{.types = {"nemotron"}, .turned = 1, .one_more = true, .activation = "relu2", .read = hub::read_nemotron}}};

}  // namespace kvasir::model::archs_nemotron
