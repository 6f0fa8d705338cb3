// The factors of whole matrices that files of some weight types have beside their blocks (NVFP4).
#pragma once

#include <string>

#include "weights/model_file.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {

// NAME.scale of the matrices NAME.weight: f32, one number for every matrix of the tensor. nullptr: the factor is 1.
inline const weights::TensorInfo* factors_of(const weights::ModelFile& file, const weights::TensorInfo& matrix) {
  const weights::Quant* quant = find(weights::quants(), matrix.quant);
  if (!quant || !quant->panel->set_factor) return nullptr;
  return file.find(matrix.name.substr(0, matrix.name.rfind('.')) + ".scale");
}

}  // namespace kvasir::model
