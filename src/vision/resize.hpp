// Resizing as the libraries behind models' image processors do it, byte for byte.
#pragma once

#include "vision/picture.hpp"

namespace kvasir::vision {

enum class Filter { kBilinear, kBicubic };

// Both resize with antialias, first along rows, then along columns, in fixed point with bytes between; they differ in
// the bits of a weight. Pillow: 22 behind the point. torchvision (uint8 on a CPU with AVX2): as many as let the largest
// weight of an axis fit into 16 bits.
enum class Rounding { kPillow, kTorchvision };

// REQUIRES: positive sizes. A side that keeps its length is not touched.
Picture resize(const Picture& from, Size to, Filter filter, Rounding rounding);

}  // namespace kvasir::vision
