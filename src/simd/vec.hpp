// The thin SIMD layer: kernels are written once, against vectors of 16 floats, 16 int32 or 64 bytes.
//
// The logical width is the same for every instruction set (one AVX-512 register, two AVX2 registers, a loop), so the
// order of every accumulation is too: float32 kernels give the same bits on every machine.
//
// Included only by sources that are compiled per instruction set (*.simd.cpp, codecs, quants); everything is inline and
// in the namespace of the set.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef KVASIR_TARGET
#error "simd/vec.hpp is for sources compiled once per instruction set (cmake/isa.cmake)"
#endif

#define KVASIR_INLINE static inline __attribute__((always_inline))

// Before a loop whose variable indexes an array of vectors: unrolled, the array lives in registers. Not for the scalar
// copy, which has no such registers and would only take minutes to compile.
#if defined(KVASIR_TARGET_scalar)
#define KVASIR_UNROLL(n)
#else
#define KVASIR_UNROLL_TEXT(text) _Pragma(#text)
#define KVASIR_UNROLL(n) KVASIR_UNROLL_TEXT(GCC unroll n)
#endif

#include KVASIR_SHIMS  // "simd/vec_SHIMS.hpp" of simd/isas.hpp

// Further down: operations written once on top of the shims.
namespace kvasir::simd::KVASIR_TARGET {

inline constexpr int kLanes = 16;

KVASIR_INLINE F32 operator+(F32 a, F32 b) { return add(a, b); }
KVASIR_INLINE F32 operator-(F32 a, F32 b) { return sub(a, b); }
KVASIR_INLINE F32 operator*(F32 a, F32 b) { return mul(a, b); }

// Fetches the line at p, which is read soon, into the second-level cache. Of pages of the cache: scattered pages of 4
// bits are read at 12 GB/s so by one thread of a Zen 4, at 7 when fetched into the first.
KVASIR_INLINE void fetch_ahead(const void* p) { __builtin_prefetch(p, 0, 2); }

// x, with zeros behind it.
template <int N, class V, int G>
KVASIR_INLINE void pad_rows(const V (&x)[G], V zeros, V (&to)[N]) {
  KVASIR_UNROLL(16)
  for (int g = 0; g < N; ++g) to[g] = g < G ? x[g] : zeros;
}
// Rows that are reduced at once for g of them.
constexpr int reduced_rows(int g) { return g <= 4 ? 4 : g <= 8 ? 8 : 16; }

// Lane g is the reduction of x[g], lanes from G <= 16 on are 0. Never by way of memory: a vector that is read where its
// lanes have just been written one by one waits for all of them to leave the store queue.
template <int G>
KVASIR_INLINE F32 reduce_adds(const F32 (&x)[G]) {
  constexpr int kRows = reduced_rows(G);
  F32 all[kRows];
  pad_rows(x, zero(), all);
  if constexpr (kRows == 4)
    return reduce_add4(all);
  else
    return reduce_add_rows<kRows>(all);
}
template <int G>
KVASIR_INLINE F32 reduce_maxima(const F32 (&x)[G]) {
  constexpr int kRows = reduced_rows(G);
  F32 all[kRows];
  pad_rows(x, zero(), all);
  if constexpr (kRows == 4)
    return reduce_max4(all);
  else
    return reduce_max_rows<kRows>(all);
}
template <int G>
KVASIR_INLINE I32 reduce_adds(const I32 (&x)[G]) {
  constexpr int kRows = reduced_rows(G);
  I32 all[kRows];
  pad_rows(x, zero_i32(), all);
  if constexpr (kRows == 4)
    return reduce_add4(all);
  else
    return reduce_add_rows<kRows>(all);
}

// exp of r in [-ln2/2, ln2/2], relative error below 2e-7 (about 2 ulp): degree-6 polynomial. NaN stays NaN.
KVASIR_INLINE F32 exp_reduced(F32 r) {
  F32 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  return fma(p, mul(r, r), add(r, set1(1.0f)));
}
// x - n ln2 (Cody and Waite).
KVASIR_INLINE F32 less_ln2(F32 x, F32 n) { return fma(n, set1(2.12194440e-4f), fma(n, set1(-0.693359375f), x)); }

// exp of x in [-87, 88.7].
KVASIR_INLINE F32 exp_in_range(F32 x) {
  const F32 n = round(mul(x, set1(1.44269504f)));
  return scale2(exp_reduced(less_ln2(x, n)), n);
}

// 0 below -87 (and for -inf), saturates above 88.7. In max and min x is the second operand, so that NaN passes.
KVASIR_INLINE F32 exp(F32 x) {
  const F32 low = set1(-87.0f);
  return zero_if_less(x, low, exp_in_range(min(set1(88.7228390f), max(low, x))));
}

// x * sigmoid(x)
KVASIR_INLINE F32 silu(F32 x) { return div(x, add(set1(1.0f), exp(sub(zero(), x)))); }

}  // namespace kvasir::simd::KVASIR_TARGET

// What the shims of a set say about it, 0 or 1; what few sets have is named by those alone:
//   KVASIR_HAS_VNNI       dot_us is one instruction and takes any u
//   KVASIR_STEPWISE_DOTS  byte products are added in 16 bits, then widened: each step may be left to the caller
//   KVASIR_SIGNED_DOTS    dot_ss is the cheapest product of bytes
//   KVASIR_LANE_SUMS      where signed products fit 16 bits, adding them up byte by byte is cheaper (add_products)
//   KVASIR_HAS_MMLA       products of several rows with two columns are one instruction (dot_columns)
//   KVASIR_HAS_BF16       dot products of pairs of bf16 are one instruction (dot_bf16)
// and KVASIR_VECTOR_REGISTERS: how many vectors of 16 floats the registers hold.
#if !defined(KVASIR_SIGNED_DOTS)
#define KVASIR_SIGNED_DOTS 0
#endif
#if !defined(KVASIR_LANE_SUMS)
#define KVASIR_LANE_SUMS 0
#endif
#if !defined(KVASIR_HAS_MMLA)
#define KVASIR_HAS_MMLA 0
#endif
