// What a file's tensors are, as text: for fingerprints of what is made from them.
#pragma once

#include <string>

#include "weights/model_file.hpp"

namespace kvasir::weights {

// A line for every tensor: name, type as it is kept, shape, and a hash of some places of each of its pieces. Says
// whether they are another model's, not whether somebody changed a few bytes.
std::string tensor_text(const ModelFile& file);

}  // namespace kvasir::weights
