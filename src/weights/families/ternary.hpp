// TQ1_0, TQ2_0 (super-blocks of 256) and Q2_0: blocks with one f16 d, x = d (u - 1). u is 0, 1 or 2; the 3 that two
// bits can be is 2 d. Panel head: d (16 f16).
#pragma once

#include "kernel/int_panels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

template <int kElements = 256>
struct Ternary {
  static constexpr int kBits = 2, kZero = 0, kBlock = kElements, kScales = 1, kHeadBytes = 32;
  static constexpr bool kMin = true;

  KVASIR_INLINE void load_head(const std::byte* head, int, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32* m) {
    using namespace simd::KVASIR_TARGET;
    d[0] = kernel::KVASIR_TARGET::get_halves(head);
    m[0] = sub(set1(-0.0f), d[0]);
  }
  static float weight(float d, float, int code) { return d * static_cast<float>(code - 1); }
};

// Codes of n floats for a given d, to nearest and halves away from 0; returns the sum of squares lost.
template <int n>
KVASIR_INLINE float ternary_codes(const float* x, float d, std::uint8_t* u) {
  float lost = 0.0f;
  for (int i = 0; i < n; ++i) {
    const float size = __builtin_fabsf(x[i]);
    const bool zero = d <= 0.0f || size < 0.5f * d;
    u[i] = zero ? 1 : x[i] < 0.0f ? 0 : 2;
    const float off = zero ? size : size - d;
    lost += off * off;
  }
  return lost;
}

// d and codes of n floats. Weights that were trained ternary are exact with the largest size; for others d is made
// the mean of the sizes that do not become 0, a few times.
template <int n = 256>
KVASIR_INLINE void quantise_ternary(const float* x, std::byte* d_out, std::uint8_t* u) {
  using kernel::KVASIR_TARGET::half_at;
  using kernel::KVASIR_TARGET::put_half_value;
  float sizes[n];
  for (int i = 0; i < n; ++i) sizes[i] = __builtin_fabsf(x[i]);
  put_half_value(largest(sizes, n), d_out);
  float least = ternary_codes<n>(x, half_at(d_out), u);
  float d = half_at(d_out);
  for (int round = 0; round < 8 && least > 0.0f; ++round) {
    float sum = 0.0f, count = 0.0f;
    for (const float size : sizes) {
      if (size < 0.5f * d) continue;
      sum += size;
      count += 1.0f;
    }
    std::byte tried[2];
    put_half_value(sum / count, tried);
    std::uint8_t codes[n];
    d = half_at(tried);
    const float lost = ternary_codes<n>(x, d, codes);
    if (!(lost < least)) continue;
    least = lost;
    __builtin_memcpy(d_out, tried, 2);
    __builtin_memcpy(u, codes, n);
  }
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
