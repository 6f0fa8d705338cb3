// What vec_test runs on every instruction set: the operations of simd/vec.hpp, each as a function of
// bytes.
#pragma once

#include <cstddef>

#include "simd/isa.hpp"

namespace kvasir::simd {

enum class VecBits { kAny, kFloats };  // kFloats: of NaNs only that they are NaN is compared

struct VecOp {
  const char* name;
  int in_bytes, out_bytes;  // exactly what is read and written
  VecBits in, out;
  void (*run)(const std::byte* in, std::byte* out);
};

struct VecTestKernels {
  const VecOp* ops;
  int count;
  void (*copy_n)(const float* from, float* to, int n);  // store_n(load_n())
  void (*load_n)(const float* from, float* to, int n);  // all 16 lanes of load_n()
};

KVASIR_DECLARE_KERNELS(VecTestKernels, vec_test)

}  // namespace kvasir::simd
