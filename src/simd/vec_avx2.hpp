// simd/vec.hpp for AVX2 + FMA + F16C: two registers per vector. The set avxvnni has the dot product of bytes besides.
#pragma once

#include "simd/x86.hpp"

#if defined(KVASIR_TARGET_avxvnni)
#define KVASIR_HAS_VNNI 1
#define KVASIR_STEPWISE_DOTS 0
#else
#define KVASIR_HAS_VNNI 0
#define KVASIR_STEPWISE_DOTS 1
#endif
#define KVASIR_HAS_BF16 0
#define KVASIR_VECTOR_REGISTERS 8

namespace kvasir::simd::KVASIR_TARGET {

struct F32 {
  __m256 a, b;
};
struct I32 {
  __m256i a, b;
};
struct Bytes {
  __m256i a, b;
};

KVASIR_INLINE F32 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
KVASIR_INLINE F32 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
KVASIR_INLINE F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
KVASIR_INLINE void store(float* p, F32 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
KVASIR_INLINE __m256i first8(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// The first n (0..16) lanes; the others are 0 / not written.
KVASIR_INLINE F32 load_n(const float* p, int n) {
  return {_mm256_maskload_ps(p, first8(n)), _mm256_maskload_ps(p + 8, first8(n - 8))};
}
KVASIR_INLINE void store_n(float* p, F32 x, int n) {
  _mm256_maskstore_ps(p, first8(n), x.a);
  _mm256_maskstore_ps(p + 8, first8(n - 8), x.b);
}
KVASIR_INLINE F32 add(F32 x, F32 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
KVASIR_INLINE F32 sub(F32 x, F32 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
KVASIR_INLINE F32 mul(F32 x, F32 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
KVASIR_INLINE F32 div(F32 x, F32 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
KVASIR_INLINE F32 fma(F32 x, F32 y, F32 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
KVASIR_INLINE F32 max(F32 x, F32 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
KVASIR_INLINE F32 min(F32 x, F32 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
KVASIR_INLINE F32 abs(F32 x) {
  const __m256 m = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  return {_mm256_and_ps(x.a, m), _mm256_and_ps(x.b, m)};
}
KVASIR_INLINE F32 limit_size(F32 x, F32 limit) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const F32 size = min(abs(x), limit);
  return {_mm256_or_ps(size.a, _mm256_and_ps(x.a, sign)), _mm256_or_ps(size.b, _mm256_and_ps(x.b, sign))};
}
KVASIR_INLINE F32 sqrt(F32 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
KVASIR_INLINE F32 round(F32 x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
}
// a * 2^n, n integral, |n| <= 128: two factors, so that 2^128 and subnormal results stay in range.
KVASIR_INLINE __m256 scale2_half(__m256 a, __m256 n) {
  const __m256i i = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(i, 1);
  const __m256i rest = _mm256_sub_epi32(i, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 f = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 g = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(a, f), g);
}
KVASIR_INLINE F32 scale2(F32 x, F32 n) { return {scale2_half(x.a, n.a), scale2_half(x.b, n.b)}; }
KVASIR_INLINE F32 zero_if_less(F32 x, F32 limit, F32 y) {
  return {_mm256_andnot_ps(_mm256_cmp_ps(x.a, limit.a, _CMP_LT_OQ), y.a),
          _mm256_andnot_ps(_mm256_cmp_ps(x.b, limit.b, _CMP_LT_OQ), y.b)};
}
KVASIR_INLINE F32 select_first(int n, F32 x, F32 y) {
  return {_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(first8(n))),
          _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(first8(n - 8)))};
}
KVASIR_INLINE float reduce_add(F32 x) {
  const __m256 h = _mm256_add_ps(x.a, x.b);
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
KVASIR_INLINE float reduce_max(F32 x) {
  const __m256 h = _mm256_max_ps(x.a, x.b);
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

// Four reductions at once, each in the order of reduce_add and reduce_max: lanes 0 .. 3, the others are 0.
KVASIR_INLINE __m128 add_quarters(F32 x) {
  const __m256 h = _mm256_add_ps(x.a, x.b);
  return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
KVASIR_INLINE __m128 max_quarters(F32 x) {
  const __m256 h = _mm256_max_ps(x.a, x.b);
  return _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
KVASIR_INLINE F32 reduce_add4(const F32* x) {
  const __m128 q[4] = {add_quarters(x[0]), add_quarters(x[1]), add_quarters(x[2]), add_quarters(x[3])};
  const __m128 a = _mm_add_ps(_mm_unpacklo_ps(q[0], q[1]), _mm_unpackhi_ps(q[0], q[1]));
  const __m128 b = _mm_add_ps(_mm_unpacklo_ps(q[2], q[3]), _mm_unpackhi_ps(q[2], q[3]));
  return {_mm256_zextps128_ps256(_mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a))), _mm256_setzero_ps()};
}
KVASIR_INLINE F32 reduce_max4(const F32* x) {
  const __m128 q[4] = {max_quarters(x[0]), max_quarters(x[1]), max_quarters(x[2]), max_quarters(x[3])};
  const __m128 a = _mm_max_ps(_mm_unpacklo_ps(q[0], q[1]), _mm_unpackhi_ps(q[0], q[1]));
  const __m128 b = _mm_max_ps(_mm_unpacklo_ps(q[2], q[3]), _mm_unpackhi_ps(q[2], q[3]));
  return {_mm256_zextps128_ps256(_mm_max_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a))), _mm256_setzero_ps()};
}

// N = 8 or 16 reductions at once, each in the order of reduce_add and reduce_max: lane i is that of x[i], lanes from N
// on are 0. Vectors are merged until the lanes of one are the sums of eight.
template <class Op>
KVASIR_INLINE __m256 reduce_eight(const F32* x, Op op) {
  const auto quarters = [&](int i) __attribute__((always_inline)) {
    const __m256 a = op(x[i].a, x[i].b), b = op(x[i + 4].a, x[i + 4].b);
    return op(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  };
  const auto pairs = [&](int i) __attribute__((always_inline)) {
    const __m256d a = _mm256_castps_pd(quarters(i)), b = _mm256_castps_pd(quarters(i + 1));
    return op(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  };
  const __m256 a = pairs(0), b = pairs(2);
  return op(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}
template <int N, class Op>
KVASIR_INLINE F32 reduce_float_rows(const F32* x, Op op) {
  static_assert(N == 8 || N == 16);
  if constexpr (N == 8) return {reduce_eight(x, op), _mm256_setzero_ps()};
  return {reduce_eight(x, op), reduce_eight(x + N - 8, op)};
}
template <int N>
KVASIR_INLINE F32 reduce_add_rows(const F32* x) {
  return reduce_float_rows<N>(
      x, [](__m256 a, __m256 b) __attribute__((always_inline)) { return _mm256_add_ps(a, b); });
}
template <int N>
KVASIR_INLINE F32 reduce_max_rows(const F32* x) {
  return reduce_float_rows<N>(
      x, [](__m256 a, __m256 b) __attribute__((always_inline)) { return _mm256_max_ps(a, b); });
}

// Lanes i and i + h (bit h of i clear) become x[i] + x[i + h] and x[i] - x[i + h]. The products by +-1 are exact, so
// fma has the bits of add and sub.
template <int h>
KVASIR_INLINE __m256 butterfly_half(__m256 x) {
  if constexpr (h == 1)
    return _mm256_fmadd_ps(x, _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1), _mm256_permute_ps(x, 0xb1));
  else if constexpr (h == 2)
    return _mm256_fmadd_ps(x, _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1), _mm256_permute_ps(x, 0x4e));
  else
    return _mm256_fmadd_ps(x, _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1), _mm256_permute2f128_ps(x, x, 1));
}
template <int h>
KVASIR_INLINE F32 butterfly(F32 x) {
  static_assert(h == 1 || h == 2 || h == 4 || h == 8);
  if constexpr (h == 8)
    return {_mm256_add_ps(x.a, x.b), _mm256_sub_ps(x.a, x.b)};
  else
    return {butterfly_half<h>(x.a), butterfly_half<h>(x.b)};
}

KVASIR_INLINE F32 load_f16(const std::uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
KVASIR_INLINE void store_f16(std::uint16_t* p, F32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
KVASIR_INLINE __m256 load_bf16_half(const std::uint16_t* p) {
  const __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}
KVASIR_INLINE F32 load_bf16(const std::uint16_t* p) { return {load_bf16_half(p), load_bf16_half(p + 8)}; }
KVASIR_INLINE __m256i bf16_bits(__m256 a) {  // in the low half of every lane
  const __m256i x = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
  const __m256i r = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(r, quiet, nan), 16);
}
KVASIR_INLINE void store_bf16(std::uint16_t* p, F32 x) {
  const __m256i packed = _mm256_packus_epi32(bf16_bits(x.a), bf16_bits(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

KVASIR_INLINE I32 zero_i32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
KVASIR_INLINE I32 set1_i32(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
KVASIR_INLINE __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
KVASIR_INLINE void store256(void* p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
KVASIR_INLINE I32 load_i32(const std::int32_t* p) { return {load256(p), load256(p + 8)}; }
KVASIR_INLINE void store_i32(std::int32_t* p, I32 x) {
  store256(p, x.a);
  store256(p + 8, x.b);
}
KVASIR_INLINE I32 add(I32 x, I32 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
KVASIR_INLINE I32 sub(I32 x, I32 y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
KVASIR_INLINE I32 mul(I32 x, I32 y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
KVASIR_INLINE I32 load_i8(const std::int8_t* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
}
KVASIR_INLINE I32 load_u8(const std::uint8_t* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
}
KVASIR_INLINE I32 and_(I32 x, I32 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
KVASIR_INLINE I32 shift_right(I32 x, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_srl_epi32(x.a, count), _mm256_srl_epi32(x.b, count)};
}
template <int entries>
KVASIR_INLINE __m256 lookup_half(F32 table, __m256i i) {
  const __m256 low = _mm256_permutevar8x32_ps(table.a, i);
  if constexpr (entries <= 8) return low;
  // The top bit of a lane chooses in blendv: bit 3 goes there.
  const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));
  return _mm256_blendv_ps(low, _mm256_permutevar8x32_ps(table.b, i), upper);
}
template <int entries>
KVASIR_INLINE F32 lookup(F32 table, I32 i) {
  return {lookup_half<entries>(table, i.a), lookup_half<entries>(table, i.b)};
}
KVASIR_INLINE F32 to_f32(I32 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
KVASIR_INLINE F32 bits_to_f32(I32 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
KVASIR_INLINE I32 f32_to_bits(F32 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
template <int n>
KVASIR_INLINE I32 shift_right32(I32 x) {
  return {_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}
template <int n>
KVASIR_INLINE I32 shift_left32(I32 x) {
  return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
KVASIR_INLINE I32 to_i32(F32 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
KVASIR_INLINE void store_low_bytes(void* p, I32 x) {
  const __m256i low = _mm256_set1_epi32(255);
  const __m256i words = _mm256_packus_epi32(_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
  _mm_storeu_si128(static_cast<__m128i*>(p), bytes);
}
// 64 signed bytes, saturating.
KVASIR_INLINE __m256i signed_bytes_half(I32 x, I32 y) {
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(x.a, x.b), _mm256_packs_epi32(y.a, y.b));
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
KVASIR_INLINE Bytes to_signed_bytes(I32 x, I32 y, I32 z, I32 w) {
  return {signed_bytes_half(x, y), signed_bytes_half(z, w)};
}
KVASIR_INLINE std::int32_t reduce_add(I32 x) {
  const __m256i h = _mm256_add_epi32(x.a, x.b);
  const __m128i q = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
  const __m128i d = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32(d, 0xb1)));
}

KVASIR_INLINE __m128i add_quarters(I32 x) {
  const __m256i h = _mm256_add_epi32(x.a, x.b);
  return _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}
KVASIR_INLINE I32 reduce_add4(const I32* x) {
  const __m128i q[4] = {add_quarters(x[0]), add_quarters(x[1]), add_quarters(x[2]), add_quarters(x[3])};
  const __m128i a = _mm_add_epi32(_mm_unpacklo_epi32(q[0], q[1]), _mm_unpackhi_epi32(q[0], q[1]));
  const __m128i b = _mm_add_epi32(_mm_unpacklo_epi32(q[2], q[3]), _mm_unpackhi_epi32(q[2], q[3]));
  return {_mm256_zextsi128_si256(_mm_add_epi32(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b))),
          _mm256_setzero_si256()};
}

template <int N>
KVASIR_INLINE I32 reduce_add_rows(const I32* x) {
  F32 v[N];
  KVASIR_UNROLL(16)
  for (int i = 0; i < N; ++i) v[i] = bits_to_f32(x[i]);
  return f32_to_bits(reduce_float_rows<N>(
      v, [](__m256 a, __m256 b) __attribute__((always_inline)) {
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
      }));
}

KVASIR_INLINE Bytes zero_bytes() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
KVASIR_INLINE Bytes load_bytes(const void* p) { return {load256(p), load256(static_cast<const char*>(p) + 32)}; }
KVASIR_INLINE void store_bytes(void* p, Bytes x) {
  store256(p, x.a);
  store256(static_cast<char*>(p) + 32, x.b);
}
KVASIR_INLINE Bytes set1_bytes(std::uint8_t x) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(x));
  return {v, v};
}
KVASIR_INLINE Bytes broadcast4(const void* p) {
  std::int32_t x;
  __builtin_memcpy(&x, p, 4);
  const __m256i v = _mm256_set1_epi32(x);
  return {v, v};
}
KVASIR_INLINE Bytes and_(Bytes x, Bytes y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
KVASIR_INLINE Bytes or_(Bytes x, Bytes y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
KVASIR_INLINE Bytes xor_(Bytes x, Bytes y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
KVASIR_INLINE Bytes sub8(Bytes x, Bytes y) { return {_mm256_sub_epi8(x.a, y.a), _mm256_sub_epi8(x.b, y.b)}; }
template <int n>
KVASIR_INLINE Bytes shift_right16(Bytes x) {
  return {_mm256_srli_epi16(x.a, n), _mm256_srli_epi16(x.b, n)};
}
template <int n>
KVASIR_INLINE Bytes shift_left16(Bytes x) {
  return {_mm256_slli_epi16(x.a, n), _mm256_slli_epi16(x.b, n)};
}

KVASIR_INLINE __m256i dot_us_half(__m256i acc, __m256i u, __m256i s) {
#if KVASIR_HAS_VNNI
#if defined(KVASIR_AVX_VNNI_BY_AVX512)  // the same instruction as AVX-512 encodes it: see cmake/isa.cmake
  return _mm256_dpbusd_epi32(acc, u, s);
#else
  return _mm256_dpbusd_avx_epi32(acc, u, s);
#endif
#else
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1)));
#endif
}
// acc[i] += sum of 4 products u * s, u unsigned, s signed. REQUIRES (without VNNI): u <= 127 (no saturation of 16-bit
// sums).
KVASIR_INLINE I32 dot_us(I32 acc, Bytes u, Bytes s) {
  return {dot_us_half(acc.a, u.a, s.a), dot_us_half(acc.b, u.b, s.b)};
}
// acc[i] += sum of 4 products, both signed. REQUIRES: y > -128 (x may be -128).
KVASIR_INLINE I32 dot_ss(I32 acc, Bytes x, Bytes y) {
  return {dot_us_half(acc.a, _mm256_abs_epi8(x.a), _mm256_sign_epi8(y.a, x.a)),
          dot_us_half(acc.b, _mm256_abs_epi8(x.b), _mm256_sign_epi8(y.b, x.b))};
}

// Sums of products, in 16 bits where that saves the widening of every product; with VNNI there is nothing to save.
// kPairSum: what they can hold.
inline constexpr std::int32_t kPairSum = KVASIR_HAS_VNNI ? INT32_MAX : 32767;
struct Pairs {
  __m256i a, b;
};
KVASIR_INLINE Pairs zero_pairs() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
// Adds two products u * s to each of the two 16-bit halves of a lane; with VNNI four to the lane.
KVASIR_INLINE Pairs dot_pairs(Pairs acc, Bytes u, Bytes s) {
#if KVASIR_HAS_VNNI
  return {dot_us_half(acc.a, u.a, s.a), dot_us_half(acc.b, u.b, s.b)};
#else
  return {_mm256_add_epi16(acc.a, _mm256_maddubs_epi16(u.a, s.a)),
          _mm256_add_epi16(acc.b, _mm256_maddubs_epi16(u.b, s.b))};
#endif
}
KVASIR_INLINE I32 add_pairs(I32 acc, Pairs x) {
#if KVASIR_HAS_VNNI
  return {_mm256_add_epi32(acc.a, x.a), _mm256_add_epi32(acc.b, x.b)};
#else
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, one)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, one))};
#endif
}
KVASIR_INLINE void pin(Bytes& x) { asm("" : "+x"(x.a), "+x"(x.b)); }
KVASIR_INLINE void pin(Pairs& x) { asm("" : "+x"(x.a), "+x"(x.b)); }
KVASIR_INLINE void pin(I32& x) { asm("" : "+x"(x.a), "+x"(x.b)); }

KVASIR_INLINE Bytes repeat16(const void* p) {
  const __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return {v, v};
}
KVASIR_INLINE Bytes lookup16(Bytes table, Bytes i) {
  return {_mm256_shuffle_epi8(table.a, i.a), _mm256_shuffle_epi8(table.b, i.b)};
}
// The top bit of a byte chooses in blendv: bit 4 goes there (nothing crosses a byte below 32).
KVASIR_INLINE __m256i lookup32_half(__m256i low, __m256i high, __m256i i) {
  return _mm256_blendv_epi8(_mm256_shuffle_epi8(low, i), _mm256_shuffle_epi8(high, i), _mm256_slli_epi16(i, 3));
}
KVASIR_INLINE Bytes lookup32(Bytes low, Bytes high, Bytes i) {
  return {lookup32_half(low.a, high.a, i.a), lookup32_half(low.b, high.b, i.b)};
}
template <int n>
KVASIR_INLINE Bytes load_unfolded(const void* p) {
  const __m256i x = load256(p);
  return {x, _mm256_srli_epi16(x, n)};
}
template <int n>
KVASIR_INLINE void store_folded(void* p, Bytes x) {
  store256(p, _mm256_or_si256(x.a, _mm256_slli_epi16(x.b, n)));
}
template <int r>
KVASIR_INLINE __m256i byte_half(__m256i x) {
  const __m256i y = _mm256_srli_epi32(x, 8 * r);
  return r == 3 ? y : _mm256_and_si256(y, _mm256_set1_epi32(255));
}
template <int r>
KVASIR_INLINE I32 byte(Bytes x) {
  return {byte_half<r>(x.a), byte_half<r>(x.b)};
}
template <int r>
KVASIR_INLINE I32 signed_byte(Bytes x) {
  return {_mm256_srai_epi32(_mm256_slli_epi32(x.a, 24 - 8 * r), 24),
          _mm256_srai_epi32(_mm256_slli_epi32(x.b, 24 - 8 * r), 24)};
}
KVASIR_INLINE Bytes interleave4(const std::uint8_t* p, std::ptrdiff_t stride) {
  const auto row = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * stride)); };
  const __m128i low0 = _mm_unpacklo_epi8(row(0), row(1));
  const __m128i high0 = _mm_unpackhi_epi8(row(0), row(1));
  const __m128i low2 = _mm_unpacklo_epi8(row(2), row(3));
  const __m128i high2 = _mm_unpackhi_epi8(row(2), row(3));
  return {_mm256_set_m128i(_mm_unpackhi_epi16(low0, low2), _mm_unpacklo_epi16(low0, low2)),
          _mm256_set_m128i(_mm_unpackhi_epi16(high0, high2), _mm_unpacklo_epi16(high0, high2))};
}

// The two steps of dot_us apart, and sums in between. 16-bit lanes: u[2i] * s[2i] + u[2i+1] * s[2i+1], u unsigned.
// REQUIRES: u <= 127 or the sum fits.
KVASIR_INLINE Bytes multiply_pairs(Bytes u, Bytes s) {
  return {_mm256_maddubs_epi16(u.a, s.a), _mm256_maddubs_epi16(u.b, s.b)};
}
KVASIR_INLINE Bytes add16(Bytes x, Bytes y) { return {_mm256_add_epi16(x.a, y.a), _mm256_add_epi16(x.b, y.b)}; }
KVASIR_INLINE Bytes sub16(Bytes x, Bytes y) { return {_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)}; }
// (x[2i] + x[2i+1]) * factor of 16-bit lanes.
KVASIR_INLINE I32 add_pairs(Bytes x, std::int16_t factor) {
  const __m256i f = _mm256_set1_epi16(factor);
  return {_mm256_madd_epi16(x.a, f), _mm256_madd_epi16(x.b, f)};
}
// Of 16 int8: sum of elements 0, 1 of every four (low 16 bits) and of elements 2, 3.
KVASIR_INLINE std::int32_t pair_sums(const std::int8_t* q) {
  const __m128i x = _mm_maddubs_epi16(_mm_set1_epi8(1), _mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  const __m128i y = _mm_add_epi16(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi16(y, _mm_shuffle_epi32(y, 0xb1)));
}

// The 64 bytes as 32 numbers of 16 bits: their even bytes, their odd bytes, signed; acc[i] += x[2i] y[2i] + x[2i+1]
// y[2i+1].
KVASIR_INLINE Bytes even_words(Bytes x) {
  return {_mm256_srai_epi16(_mm256_slli_epi16(x.a, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(x.b, 8), 8)};
}
KVASIR_INLINE Bytes odd_words(Bytes x) { return {_mm256_srai_epi16(x.a, 8), _mm256_srai_epi16(x.b, 8)}; }
KVASIR_INLINE I32 dot_words(I32 acc, Bytes x, Bytes y) {
  return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y.a)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y.b))};
}

}  // namespace kvasir::simd::KVASIR_TARGET
