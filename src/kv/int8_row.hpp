// Rows of queries and weights as 8-bit integers, the left factor of packed matrices. For sources compiled per
// instruction set.
#pragma once

#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

struct Int8Row {
  float scale;       // x = scale * out to within scale / 2
  std::int32_t sum;  // of out
};

// out = x / scale to nearest even, |out| <= 127, scale = max |x| / 127. A row of zeros, or of numbers so small that
// their reciprocal overflows, gets scale 0; a row that is not finite gets NaN and zeros. n: a multiple of 16.
static inline Int8Row quantize_row(const float* x, int n, std::int8_t* out) {
  F32 largest = zero();
  F32 finite = zero();  // 0 * x is NaN for what is not finite, which the maximum may lose
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = load(x + i);
    largest = max(largest, abs(v));
    finite = fma(v, zero(), finite);
  }
  const bool is_finite = reduce_add(finite) == 0.0f;
  const float m = is_finite ? reduce_max(largest) : 0.0f;
  const bool usable = m >= 1.5e-36f;
  const F32 inverse = set1(usable ? 127.0f / m : 0.0f);
  I32 sum = zero_i32();
  for (int i = 0; i < n; i += kLanes) {
    const I32 q = is_finite ? to_i32(mul(load(x + i), inverse)) : zero_i32();
    store_low_bytes(out + i, q);
    sum = add(sum, q);
  }
  return {!is_finite ? __builtin_nanf("") : usable ? m / 127.0f : 0.0f, reduce_add(sum)};
}

// Sum of n integers, for corrections of a part of a row. n: a multiple of 16.
static inline std::int32_t sum_row(const std::int8_t* x, int n) {
  I32 sum = zero_i32();
  for (int i = 0; i < n; i += kLanes) sum = add(sum, load_i8(x + i));
  return reduce_add(sum);
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
