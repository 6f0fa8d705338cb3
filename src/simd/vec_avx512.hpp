// simd/vec.hpp for AVX-512 (F BW VL DQ VNNI, in some sources BF16): one register per vector.
#pragma once

#include "simd/x86.hpp"

#define KVASIR_HAS_VNNI 1
#define KVASIR_STEPWISE_DOTS 0
// The dot product of pairs of bf16, in the sources that are compiled for it (cmake/isa.cmake); it is not emulated.
#if defined(KVASIR_WITH_BF16) && !defined(KVASIR_EMULATE_AVX512)
#define KVASIR_HAS_BF16 1
#else
#define KVASIR_HAS_BF16 0
#endif
#define KVASIR_VECTOR_REGISTERS 32
#define KVASIR_MAY_HAVE_TILES 1  // where simd::has_tiles(active())

namespace kvasir::simd::KVASIR_TARGET {

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
struct Bytes {
  __m512i v;
};

KVASIR_INLINE F32 zero() { return {_mm512_setzero_ps()}; }
KVASIR_INLINE F32 set1(float x) { return {_mm512_set1_ps(x)}; }
KVASIR_INLINE F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
KVASIR_INLINE void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
KVASIR_INLINE __mmask16 first(int n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << n) - 1); }
// The first n (0..16) lanes; the others are 0 / not written.
KVASIR_INLINE F32 load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
KVASIR_INLINE void store_n(float* p, F32 a, int n) { _mm512_mask_storeu_ps(p, first(n), a.v); }
KVASIR_INLINE F32 add(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
KVASIR_INLINE F32 sub(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
KVASIR_INLINE F32 mul(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
KVASIR_INLINE F32 div(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
KVASIR_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  // a * b + c
KVASIR_INLINE F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }                // b when either is NaN
KVASIR_INLINE F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
KVASIR_INLINE F32 abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
// a, no larger than `limit` by size. REQUIRES: limit >= 0, neither is NaN.
KVASIR_INLINE F32 limit_size(F32 a, F32 limit) {
  return {_mm512_range_ps(a.v, limit.v, 2)};  // the smaller size, with the sign of a
}
KVASIR_INLINE F32 sqrt(F32 a) { return {_mm512_sqrt_ps(a.v)}; }
KVASIR_INLINE F32 round(F32 a) {  // to nearest even
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
KVASIR_INLINE F32 scale2(F32 a, F32 n) { return {_mm512_scalef_ps(a.v, n.v)}; }  // a * 2^n, n integral, |n| <= 128
// Lanes where x < limit become 0.
KVASIR_INLINE F32 zero_if_less(F32 x, F32 limit, F32 a) {
  return {_mm512_mask_mov_ps(a.v, _mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ), _mm512_setzero_ps())};
}
// Lanes below n from a, the others from b.
KVASIR_INLINE F32 select_first(int n, F32 a, F32 b) { return {_mm512_mask_mov_ps(b.v, first(n), a.v)}; }
// Pairwise tree ((0+8)+(4+12)) ...: the same on every instruction set.
KVASIR_INLINE float reduce_add(F32 a) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
// In the same order, which decides where a lane is NaN; that of _mm512_reduce_max_ps is the compiler's.
KVASIR_INLINE float reduce_max(F32 a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

// Four reductions at once, each in the order of reduce_add and reduce_max: lanes 0 .. 3, the others are 0.
KVASIR_INLINE __m128 add_quarters(F32 x) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
KVASIR_INLINE __m128 max_quarters(F32 x) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  return _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
KVASIR_INLINE F32 reduce_add4(const F32* x) {
  const __m128 q[4] = {add_quarters(x[0]), add_quarters(x[1]), add_quarters(x[2]), add_quarters(x[3])};
  const __m128 a = _mm_add_ps(_mm_unpacklo_ps(q[0], q[1]), _mm_unpackhi_ps(q[0], q[1]));
  const __m128 b = _mm_add_ps(_mm_unpacklo_ps(q[2], q[3]), _mm_unpackhi_ps(q[2], q[3]));
  return {_mm512_zextps128_ps512(_mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a)))};
}
KVASIR_INLINE F32 reduce_max4(const F32* x) {
  const __m128 q[4] = {max_quarters(x[0]), max_quarters(x[1]), max_quarters(x[2]), max_quarters(x[3])};
  const __m128 a = _mm_max_ps(_mm_unpacklo_ps(q[0], q[1]), _mm_unpackhi_ps(q[0], q[1]));
  const __m128 b = _mm_max_ps(_mm_unpacklo_ps(q[2], q[3]), _mm_unpackhi_ps(q[2], q[3]));
  return {_mm512_zextps128_ps512(_mm_max_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a)))};
}

// N = 8 or 16 reductions at once, each in the order of reduce_add and reduce_max: lane i is that of x[i], lanes from N
// on are 0. Vectors are merged until the lanes of one are the sums of all.
template <int N, class Op>
KVASIR_INLINE __m512 reduce_rows(const __m512 (&x)[N], Op op) {
  static_assert(N == 8 || N == 16);
  const auto halves = [&](int i, int j) __attribute__((always_inline)) {
    return op(_mm512_shuffle_f32x4(x[i], x[j], 0x44), _mm512_shuffle_f32x4(x[i], x[j], 0xee));
  };
  const auto quarters = [&](int i) __attribute__((always_inline)) {
    const __m512 a = halves(i, 4 + i);
    __m512 b = _mm512_setzero_ps();
    if constexpr (N == 16) b = halves(8 + i, 12 + i);
    return op(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  const auto pairs = [&](int i) __attribute__((always_inline)) {
    const __m512d a = _mm512_castps_pd(quarters(i)), b = _mm512_castps_pd(quarters(i + 1));
    return op(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  };
  const __m512 a = pairs(0), b = pairs(2);
  return op(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
template <int N, class Op>
KVASIR_INLINE F32 reduce_float_rows(const F32* x, Op op) {
  __m512 v[N];
  KVASIR_UNROLL(16)
  for (int i = 0; i < N; ++i) v[i] = x[i].v;
  return {reduce_rows(v, op)};
}
template <int N>
KVASIR_INLINE F32 reduce_add_rows(const F32* x) {
  return reduce_float_rows<N>(
      x, [](__m512 a, __m512 b) __attribute__((always_inline)) { return _mm512_add_ps(a, b); });
}
template <int N>
KVASIR_INLINE F32 reduce_max_rows(const F32* x) {
  return reduce_float_rows<N>(
      x, [](__m512 a, __m512 b) __attribute__((always_inline)) { return _mm512_max_ps(a, b); });
}

// Lanes i and i + h (bit h of i clear) become a[i] + a[i + h] and a[i] - a[i + h].
template <int h>
KVASIR_INLINE F32 butterfly(F32 a) {
  static_assert(h == 1 || h == 2 || h == 4 || h == 8);
  constexpr __mmask16 upper = h == 1 ? 0xaaaa : h == 2 ? 0xcccc : h == 4 ? 0xf0f0 : 0xff00;
  __m512 swapped;
  if constexpr (h == 1) swapped = _mm512_permute_ps(a.v, 0xb1);
  if constexpr (h == 2) swapped = _mm512_permute_ps(a.v, 0x4e);
  if constexpr (h == 4) swapped = _mm512_shuffle_f32x4(a.v, a.v, 0xb1);
  if constexpr (h == 8) swapped = _mm512_shuffle_f32x4(a.v, a.v, 0x4e);
  return {_mm512_mask_sub_ps(_mm512_add_ps(a.v, swapped), upper, swapped, a.v)};
}

KVASIR_INLINE F32 load_f16(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
KVASIR_INLINE void store_f16(std::uint16_t* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
KVASIR_INLINE F32 load_bf16(const std::uint16_t* p) {
  const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(x, 16))};
}
KVASIR_INLINE void store_bf16(std::uint16_t* p, F32 a) {  // to nearest even, NaN stays NaN
  const __m512i x = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(r, nan, x, _mm512_set1_epi32(0x400000));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

KVASIR_INLINE I32 zero_i32() { return {_mm512_setzero_si512()}; }
KVASIR_INLINE I32 set1_i32(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
KVASIR_INLINE I32 load_i32(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
KVASIR_INLINE void store_i32(std::int32_t* p, I32 a) { _mm512_storeu_si512(p, a.v); }
KVASIR_INLINE I32 add(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
KVASIR_INLINE I32 sub(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
KVASIR_INLINE I32 mul(I32 a, I32 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
KVASIR_INLINE I32 load_i8(const std::int8_t* p) {  // 16 signed bytes
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KVASIR_INLINE I32 load_u8(const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
KVASIR_INLINE I32 and_(I32 x, I32 y) { return {_mm512_and_si512(x.v, y.v)}; }
// Shifts zeros in.
KVASIR_INLINE I32 shift_right(I32 x, int n) { return {_mm512_srl_epi32(x.v, _mm_cvtsi32_si128(n))}; }
// Lane i[lane] % 16 of the table. REQUIRES: that is below `entries`.
template <int entries>
KVASIR_INLINE F32 lookup(F32 table, I32 i) {
  return {_mm512_permutexvar_ps(i.v, table.v)};
}
KVASIR_INLINE F32 to_f32(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
KVASIR_INLINE F32 bits_to_f32(I32 a) { return {_mm512_castsi512_ps(a.v)}; }
KVASIR_INLINE I32 f32_to_bits(F32 a) { return {_mm512_castps_si512(a.v)}; }
template <int n>  // arithmetic
KVASIR_INLINE I32 shift_right32(I32 a) {
  return {_mm512_srai_epi32(a.v, n)};
}
template <int n>
KVASIR_INLINE I32 shift_left32(I32 a) {
  return {_mm512_slli_epi32(a.v, n)};
}
KVASIR_INLINE I32 to_i32(F32 a) { return {_mm512_cvtps_epi32(a.v)}; }  // to nearest even
// The low byte of every lane (16 bytes).
KVASIR_INLINE void store_low_bytes(void* p, I32 a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
// 64 signed bytes from 4 x 16 integers, saturating.
KVASIR_INLINE Bytes to_signed_bytes(I32 a, I32 b, I32 c, I32 d) {
  const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(a.v, b.v), _mm512_packs_epi32(c.v, d.v));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return {_mm512_permutexvar_epi32(order, bytes)};
}
KVASIR_INLINE std::int32_t reduce_add(I32 a) { return _mm512_reduce_add_epi32(a.v); }

KVASIR_INLINE __m128i add_quarters(I32 x) {
  const __m256i h = _mm256_add_epi32(_mm512_castsi512_si256(x.v), _mm512_extracti64x4_epi64(x.v, 1));
  return _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}
KVASIR_INLINE I32 reduce_add4(const I32* x) {
  const __m128i q[4] = {add_quarters(x[0]), add_quarters(x[1]), add_quarters(x[2]), add_quarters(x[3])};
  const __m128i a = _mm_add_epi32(_mm_unpacklo_epi32(q[0], q[1]), _mm_unpackhi_epi32(q[0], q[1]));
  const __m128i b = _mm_add_epi32(_mm_unpacklo_epi32(q[2], q[3]), _mm_unpackhi_epi32(q[2], q[3]));
  return {_mm512_zextsi128_si512(_mm_add_epi32(_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)))};
}

template <int N>
KVASIR_INLINE I32 reduce_add_rows(const I32* x) {
  __m512 v[N];
  KVASIR_UNROLL(16)
  for (int i = 0; i < N; ++i) v[i] = _mm512_castsi512_ps(x[i].v);
  return {_mm512_castps_si512(reduce_rows(
      v, [](__m512 a, __m512 b) __attribute__((always_inline)) {
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
      }))};
}

KVASIR_INLINE Bytes zero_bytes() { return {_mm512_setzero_si512()}; }
KVASIR_INLINE Bytes load_bytes(const void* p) { return {_mm512_loadu_si512(p)}; }
KVASIR_INLINE void store_bytes(void* p, Bytes a) { _mm512_storeu_si512(p, a.v); }
KVASIR_INLINE Bytes set1_bytes(std::uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
// The 4 bytes at p in every 32-bit lane.
KVASIR_INLINE Bytes broadcast4(const void* p) {
  std::int32_t x;
  __builtin_memcpy(&x, p, 4);
  return {_mm512_set1_epi32(x)};
}
KVASIR_INLINE Bytes and_(Bytes a, Bytes b) { return {_mm512_and_si512(a.v, b.v)}; }
KVASIR_INLINE Bytes or_(Bytes a, Bytes b) { return {_mm512_or_si512(a.v, b.v)}; }
KVASIR_INLINE Bytes xor_(Bytes a, Bytes b) { return {_mm512_xor_si512(a.v, b.v)}; }
KVASIR_INLINE Bytes sub8(Bytes a, Bytes b) { return {_mm512_sub_epi8(a.v, b.v)}; }
template <int n>  // within 16-bit lanes: mask the result
KVASIR_INLINE Bytes shift_right16(Bytes a) {
  return {_mm512_srli_epi16(a.v, n)};
}
template <int n>
KVASIR_INLINE Bytes shift_left16(Bytes a) {
  return {_mm512_slli_epi16(a.v, n)};
}

// acc[i] += sum of 4 products u[4i+j] * s[4i+j], u unsigned, s signed.
// REQUIRES (without VNNI): u <= 127, so that the 16-bit partial sums of maddubs cannot saturate.
KVASIR_INLINE I32 dot_us(I32 acc, Bytes u, Bytes s) { return {_mm512_dpbusd_epi32(acc.v, u.v, s.v)}; }
// acc[i] += sum of 4 products a * b, both signed. REQUIRES: b > -128 (a may be -128).
KVASIR_INLINE I32 dot_ss(I32 acc, Bytes a, Bytes b) {
  const __mmask64 negative = _mm512_movepi8_mask(a.v);
  const __m512i sb = _mm512_mask_sub_epi8(b.v, negative, _mm512_setzero_si512(), b.v);
  const __m512i ua = _mm512_abs_epi8(a.v);
  return {_mm512_dpbusd_epi32(acc.v, ua, sb)};
}

// Sums of products, in 16 bits where that saves the widening of every product; with VNNI there is nothing to save.
// kPairSum: what they can hold.
struct Pairs {
  __m512i v;
};
KVASIR_INLINE Pairs zero_pairs() { return {_mm512_setzero_si512()}; }
inline constexpr std::int32_t kPairSum = INT32_MAX;
KVASIR_INLINE Pairs dot_pairs(Pairs acc, Bytes u, Bytes s) { return {_mm512_dpbusd_epi32(acc.v, u.v, s.v)}; }
KVASIR_INLINE I32 add_pairs(I32 acc, Pairs x) { return {_mm512_add_epi32(acc.v, x.v)}; }
// The compiler must have this sum in a register here. Left alone, GCC adds products up in a tree of its own, for which
// all of them have to exist at once: with many sums they spill.
KVASIR_INLINE void pin(Bytes& x) { asm("" : KVASIR_WIDE_REGISTER(x.v)); }
KVASIR_INLINE void pin(Pairs& x) { asm("" : KVASIR_WIDE_REGISTER(x.v)); }
KVASIR_INLINE void pin(I32& x) { asm("" : KVASIR_WIDE_REGISTER(x.v)); }

// The 16 bytes at p, four times: a table for lookup16.
KVASIR_INLINE Bytes repeat16(const void* p) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
}
// table[i] for every byte i. REQUIRES: i < 16.
KVASIR_INLINE Bytes lookup16(Bytes table, Bytes i) { return {_mm512_shuffle_epi8(table.v, i.v)}; }
// i < 16: low[i], else high[i - 16]. REQUIRES: i < 32.
KVASIR_INLINE Bytes lookup32(Bytes low, Bytes high, Bytes i) {
  const __mmask64 upper = _mm512_test_epi8_mask(i.v, _mm512_set1_epi8(16));
  return {_mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(low.v, i.v), upper, high.v, i.v)};
}
// Two parts that share 32 bytes: the first is the bytes as they are, the second is the bytes shifted right by n within
// 16-bit lanes. Mask the result.
template <int n>
KVASIR_INLINE Bytes load_unfolded(const void* p) {
  const __m256i x = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return {_mm512_srlv_epi16(_mm512_broadcast_i64x4(x),
                            _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(n), 1))};
}
// The inverse: 32 bytes, first half | second half << n. REQUIRES: no byte crosses into its neighbour.
template <int n>
KVASIR_INLINE void store_folded(void* p, Bytes x) {
  const __m256i second = _mm256_slli_epi16(_mm512_extracti64x4_epi64(x.v, 1), n);
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_or_si256(_mm512_castsi512_si256(x.v), second));
}
// Byte r of every lane.
template <int r>
KVASIR_INLINE I32 byte(Bytes x) {
  const __m512i y = _mm512_srli_epi32(x.v, 8 * r);
  return {r == 3 ? y : _mm512_and_si512(y, _mm512_set1_epi32(255))};
}
template <int r>
KVASIR_INLINE I32 signed_byte(Bytes x) {
  return {_mm512_srai_epi32(_mm512_slli_epi32(x.v, 24 - 8 * r), 24)};
}
// Byte r of lane i is byte i of the row r of 16 bytes at p + r * stride.
KVASIR_INLINE Bytes interleave4(const std::uint8_t* p, std::ptrdiff_t stride) {
  const auto row = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * stride)); };
  const __m128i low0 = _mm_unpacklo_epi8(row(0), row(1));
  const __m128i high0 = _mm_unpackhi_epi8(row(0), row(1));
  const __m128i low2 = _mm_unpacklo_epi8(row(2), row(3));
  const __m128i high2 = _mm_unpackhi_epi8(row(2), row(3));
  const __m256i first = _mm256_set_m128i(_mm_unpackhi_epi16(low0, low2), _mm_unpacklo_epi16(low0, low2));
  const __m256i second = _mm256_set_m128i(_mm_unpackhi_epi16(high0, high2), _mm_unpacklo_epi16(high0, high2));
  return {_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1)};
}

#if KVASIR_HAS_BF16
// 32-bit lane i: two rows of 16 numbers of 16 bits, row 0's number i in the low half and row 1's in the high one.
KVASIR_INLINE Bytes interleave_rows16(Bytes rows) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return {_mm512_permutexvar_epi16(order, rows.v)};
}
// 32 numbers, `low` first, rounded to bf16: to nearest even, subnormal numbers to 0.
KVASIR_INLINE Bytes to_bf16(F32 low, F32 high) { return {(__m512i)_mm512_cvtne2ps_pbh(high.v, low.v)}; }
// acc + the products of the two bf16 in each lane. Subnormal inputs and results count as 0.
KVASIR_INLINE F32 dot_bf16(F32 acc, Bytes a, Bytes b) {
  return {_mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v)};
}
#endif

// The 64 bytes as 32 numbers of 16 bits: their even bytes, their odd bytes, signed; acc[i] += x[2i] y[2i] + x[2i+1]
// y[2i+1].
KVASIR_INLINE Bytes even_words(Bytes x) { return {_mm512_srai_epi16(_mm512_slli_epi16(x.v, 8), 8)}; }
KVASIR_INLINE Bytes odd_words(Bytes x) { return {_mm512_srai_epi16(x.v, 8)}; }
KVASIR_INLINE I32 dot_words(I32 acc, Bytes x, Bytes y) {
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(x.v, y.v))};
}

}  // namespace kvasir::simd::KVASIR_TARGET
