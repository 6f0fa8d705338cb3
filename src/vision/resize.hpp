// Resizing as the libraries behind models' image processors do it, byte for byte.
#pragma once

#include "vision/picture.hpp"

namespace kvasir::vision {

enum class Filter { kBilinear, kBicubic, kLanczos };  // the last one reaches three places

// Both resize with antialias, first along rows, then along columns, in fixed point with bytes between; they differ in
// the bits of a weight. Pillow: 22 behind the point. torchvision (uint8 on a CPU with AVX2): as many as let the largest
// weight of an axis fit into 16 bits.
enum class Rounding { kPillow, kTorchvision };

// REQUIRES: positive sizes. A side that keeps its length is not touched.
Picture resize(const Picture& from, Size to, Filter filter, Rounding rounding);

// The square of side x side pixels in a row and column of squares. REQUIRES: it lies in the picture.
Picture cut_square(const Picture& from, int row, int column, int side);

}  // namespace kvasir::vision
