// The encoders of Qwen's models of pictures: a tower with rotation by row and column over patches, of which those of a
// square become one row of the text model.
#pragma once

#include <memory>

#include "vision/encoder.hpp"
#include "vision/tower.hpp"

namespace kvasir::vision {

struct QwenKind {
  TowerKind tower;
  double least_rows;       // of a picture, as the published processor has it
  int window = 0;          // pixels on a side of the squares within which patches see each other; 0: all do
  bool positions = false;  // a learned table, stretched over the picture, besides
  bool placed = true;      // rows have positions of three parts (M-RoPE)
  float theta = 10000;     // of the rotation
  // A norm behind the patches, v.pre_ln; a merger without biases where the file has none, with a layer norm.
  bool lfm3 = false;
};

// Throws Error naming file, key or tensor.
std::unique_ptr<Encoder> open_qwen(const Reader& reader, const EncoderOptions& options, const QwenKind& kind);

}  // namespace kvasir::vision
