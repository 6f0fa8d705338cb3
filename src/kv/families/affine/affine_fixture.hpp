// What affine_test sees of kv/families/affine/grid.hpp and hqq.hpp: one table per instruction set.
#pragma once

#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kv {

struct TestGroup {
  float s;
  float m;
};

struct AffineTestKernels {
  // One group of n numbers by minimum and maximum; bits 2 or 4.
  TestGroup (*quantize)(int bits, const float* x, int n, std::uint8_t* codes);
  // The offset after one step of HQQ, before it is rounded to half.
  float (*hqq_step)(int bits, const float* x, int n, float s, float m, float beta);
  float (*power_of_error)(float x);
};

KVASIR_DECLARE_KERNELS(AffineTestKernels, affine_test)

}  // namespace kvasir::kv
