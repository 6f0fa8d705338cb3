// The file of a model's packed weights: where it is, and what it has to be of.
#pragma once

#include <string>

#include "model/spec.hpp"
#include "weights/model_file.hpp"
#include "weights/packed_file.hpp"

namespace kvasir::model {

struct PackedName {
  std::string path;
  weights::PackedFingerprint fingerprint;
};

// Beside the model, and called after it and the fingerprint; or `path`. The fingerprint covers the specification,
// samples of every tensor, and what decides how they are packed: instruction set, exactness, version.
PackedName packed_name(const ModelSpec& spec, const weights::ModelFile& file, bool exact, bool bf16_products,
                       const std::string& path);

}  // namespace kvasir::model
