// Rows of queries and weights as 8-bit integers, the left factor of packed matrices. For sources compiled per
// instruction set.
#pragma once

#include "kv/codec.hpp"
#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// A row of 8-bit integers x that stand for scale * x.
struct Int8Row {
  float scale;
  std::int32_t sum;  // of x
};

// out = x / scale to nearest even, |out| <= 127, scale = max |x| / 127, so that x = scale * out to within scale / 2. A
// row of zeros, or of numbers so small that their reciprocal overflows, gets scale 0; a row that is not finite gets NaN
// and zeros. n: a multiple of 16.
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

// 64 products from p on as bytes, to nearest even.
KVASIR_INLINE Bytes rounded_bytes(const float* p, F32 inverse) {
  return to_signed_bytes(to_i32(mul(load(p), inverse)), to_i32(mul(load(p + kLanes), inverse)),
                         to_i32(mul(load(p + 2 * kLanes), inverse)), to_i32(mul(load(p + 3 * kLanes), inverse)));
}

// G rows x[g * stride + i] * factors[i], i < kCount, as quantize_row; total: of x, not finite when any x is not. Each
// step is done for all rows before the next, so that their reductions and divisions overlap. Factors outside
// [begin, end) are not read: x is 0 there. REQUIRES: multiples of kLanes
template <int G, int kCount>
KVASIR_INLINE void quantize_products(const float* x, std::ptrdiff_t stride, const std::uint16_t* factors, int begin,
                                     int end, std::int8_t* out, Int8Row* rows, float* totals) {
  static_assert(kCount % 64 == 0);
  alignas(64) float factor[kCount];
  alignas(64) float product[G][kCount];
  for (int i = 0; i < kCount; i += kLanes) store(factor + i, i >= begin && i < end ? load_f16(factors + i) : zero());
  F32 largest[G];
  F32 total[G];
  KVASIR_UNROLL(1)
  for (int g = 0; g < G; ++g) {
    F32 a = zero();
    F32 b = zero();
    KVASIR_UNROLL(2)
    for (int i = 0; i < kCount; i += kLanes) {
      const F32 v = load(x + g * stride + i);
      const F32 p = mul(v, load(factor + i));
      store(product[g] + i, p);
      a = max(a, abs(p));
      b = add(b, v);
    }
    largest[g] = a;
    total[g] = b;
  }
  // All rows at once; top is NaN where the total is not finite.
  const F32 all = reduce_adds(total);
  const F32 top = fma(all, zero(), reduce_maxima(largest));
  const F32 finite = mul(top, zero());
  const F32 size = max(top, zero());
  const F32 least = set1(1.5e-36f);
  alignas(64) float inverse[kLanes];
  alignas(64) float scale[kLanes];
  alignas(64) float mass[kLanes];
  store(mass, all);
  store(inverse, zero_if_less(size, least, zero_if_less(set1(3e38f), size, div(set1(127.0f), size))));
  store(scale, add(finite, zero_if_less(size, least, div(size, set1(127.0f)))));
  I32 sums[G];
  KVASIR_UNROLL(1)
  for (int g = 0; g < G; ++g) {
    I32 sum = zero_i32();
    if (inverse[g] > 0.0f) {
      KVASIR_UNROLL(2)
      for (int i = 0; i < kCount; i += 64) {
        const Bytes bytes = rounded_bytes(product[g] + i, set1(inverse[g]));
        store_bytes(out + g * kCount + i, bytes);
        sum = dot_us(sum, set1_bytes(1), bytes);
      }
    } else {
      for (int i = 0; i < kCount; i += 64) store_bytes(out + g * kCount + i, zero_bytes());
    }
    sums[g] = sum;
  }
  alignas(64) std::int32_t sum[kLanes];
  store_i32(sum, reduce_adds(sums));
  for (int g = 0; g < G; ++g) {
    rows[g] = {scale[g], sum[g]};
    totals[g] = mass[g];
  }
}

// Sum of n integers, for corrections of a part of a row. n: a multiple of 16.
static inline std::int32_t sum_row(const std::int8_t* x, int n) {
  I32 sum = zero_i32();
  for (int i = 0; i < n; i += kLanes) sum = add(sum, load_i8(x + i));
  return reduce_add(sum);
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
