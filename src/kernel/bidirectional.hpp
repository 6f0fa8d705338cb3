// Attention without a cache: every row of a text sees all of its rows, or those near it on both sides.
#pragma once

#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kernel {

// One head of a text of n rows; row r of the keys is at k + r * k_stride, the others alike.
struct WholeHead {
  std::int64_t n;
  int d, dv;
  const float *q, *k, *v;
  std::int64_t q_stride, k_stride, v_stride;
  float scale;     // of products of queries and keys
  float soft_cap;  // 0: none; scores become cap * tanh(score / cap)
  float* out;      // (n, dv)
  std::int64_t out_stride;
  std::int64_t reach = -1;  // a row sees rows that are at most so far from it; -1: all
  float slope = 0;          // ALiBi: score - slope * distance, after the cap
};

inline constexpr int kWholePanel = 16;
inline constexpr std::int64_t kWholeQueries = 24;  // whose scores with all rows are held at a time
constexpr std::int64_t whole_pitch(std::int64_t n) { return (n + kWholePanel - 1) / kWholePanel * kWholePanel; }

// Floats of scratch that attend() needs for a head of n rows with d channels of keys, dv of values.
constexpr std::int64_t whole_head_scratch(std::int64_t n, int d, int dv) {
  return whole_pitch(n) * (d + whole_pitch(dv)) + kWholeQueries * (whole_pitch(n) + kWholePanel + d);
}

struct BidirectionalKernels {
  // out = softmax(scale * q kᵀ) v, row by row, in one fixed order.
  void (*attend)(const WholeHead& head, float* scratch);
  // The same with products of bf16: queries, keys, values and exp(score - max) are rounded to it, their sums are f32.
  // With simd::multiplies_bf16 only; null in sets that have no such kernels.
  void (*attend_pairs)(const WholeHead& head, float* scratch);
};

KVASIR_DECLARE_KERNELS(BidirectionalKernels, bidirectional)

}  // namespace kvasir::kernel
