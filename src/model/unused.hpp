// Tensors that a file has and its specification does not read.
#pragma once

#include <vector>

#include "model/spec.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

struct UnusedTensor {
  const weights::TensorInfo* tensor;
  // Why leaving it out changes nothing that is computed here; null where it does.
  const char* reason;
};

// In the order of the file.
std::vector<UnusedTensor> unused_tensors(const ModelSpec& spec, const weights::ModelFile& file);

}  // namespace kvasir::model
