// Row operations between the matrix products. Every row is computed alone and in one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kernel {

enum class RopePairs {
  kAdjacent,   // (2i, 2i+1): Llama
  kSplitHalf,  // (i, i + n_rot/2): GPT-NeoX, Qwen
};

struct OpKernels {
  // out = x / sqrt(mean(x^2) + eps) * w, n elements; in place allowed.
  void (*rms_norm)(const float* x, const float* w, float* out, std::int64_t n, float eps);
  // x += y
  void (*add)(float* x, const float* y, std::int64_t n);
  // out = silu(gate) * up
  void (*silu_mul)(const float* gate, const float* up, float* out, std::int64_t n);
  // Rotates the first 2 * pairs elements of one head; cos and sin have `pairs` elements.
  void (*rope)(float* head, const float* cos, const float* sin, std::int64_t pairs, RopePairs style);
};
KVASIR_DECLARE_KERNELS(OpKernels, ops)

}  // namespace kvasir::kernel
