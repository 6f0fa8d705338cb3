// A model whose weights of 16 or 32 bits are seen in smaller types, as a mixture would have them in a file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weights/model_file.hpp"

namespace kvasir::weights {

// Matrices of floats that a mixture rounds have its types, and are rounded when their rows are asked for, by the range
// of each block: requantise(), which tries more, takes minutes where this takes seconds. Others stay: vectors, experts,
// tables that rows are looked up in, and weights that are rounded already. `mix` is a name of weights/mixes.hpp, or
// "q4_k" and the like for its mixture "M". Throws Error(kBadInput) for an unknown one, and for one that needs an
// importance matrix.
std::unique_ptr<ModelFile> rounded(std::unique_ptr<ModelFile> file, std::string_view mix);

}  // namespace kvasir::weights
