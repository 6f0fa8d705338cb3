// AVX-512 on machines that have AVX2 only, slowly but to the bit, for tests (-DKVASIR_EMULATE_AVX512=ON): SIMDe, plus
// what SIMDe 0.7.4 lacks or has wrong, written after the operations in Intel's Intrinsics Guide. An intrinsic that
// neither has fails to compile ("target specific option mismatch"): add it here.
//
// What this cannot show: instructions that the compiler itself chooses when it may use AVX-512, alignment of aligned
// loads beyond 32 bytes (except below), speed.
#pragma once

#include <immintrin.h>

#if defined(__AVX512F__)
#error "KVASIR_EMULATE_AVX512 is for sources compiled without -mavx512*"
#endif
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

namespace kvasir::simd::emulation {

#define KVASIR_EMULATED static inline __attribute__((always_inline))

struct Half512 {
  __m256 low, high;
};
struct Half512i {
  __m256i low, high;
};
KVASIR_EMULATED Half512 halves(__m512 x) { return __builtin_bit_cast(Half512, x); }
KVASIR_EMULATED Half512i halves(__m512i x) { return __builtin_bit_cast(Half512i, x); }
KVASIR_EMULATED __m512 whole(__m256 low, __m256 high) { return __builtin_bit_cast(__m512, Half512{low, high}); }
KVASIR_EMULATED __m512i whole(__m256i low, __m256i high) { return __builtin_bit_cast(__m512i, Half512i{low, high}); }
KVASIR_EMULATED __m128i lower(__m256i x) { return _mm256_castsi256_si128(x); }
KVASIR_EMULATED __m128i upper(__m256i x) { return _mm256_extracti128_si256(x, 1); }

// --- not in SIMDe 0.7.4 ----------------------------------------------------------------------------------------------

// No byte of an unset lane is read or written: such lanes may lie outside of any object.
KVASIR_EMULATED __m512 maskz_loadu_ps(__mmask16 k, const void* p) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    lanes[i] = 0;
    if (k >> i & 1) __builtin_memcpy(lanes + i, static_cast<const char*>(p) + 4 * i, 4);
  }
  return _mm512_loadu_ps(lanes);
}
KVASIR_EMULATED void mask_storeu_ps(void* p, __mmask16 k, __m512 x) {
  float lanes[16];
  _mm512_storeu_ps(lanes, x);
  for (int i = 0; i < 16; ++i)
    if (k >> i & 1) __builtin_memcpy(static_cast<char*>(p) + 4 * i, lanes + i, 4);
}

KVASIR_EMULATED __m512i cvtepi8_epi32(__m128i x) {
  return whole(_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
}
KVASIR_EMULATED __m512i cvtepu8_epi32(__m128i x) {
  return whole(_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
KVASIR_EMULATED __m512i cvtepu16_epi32(__m256i x) {
  return whole(_mm256_cvtepu16_epi32(lower(x)), _mm256_cvtepu16_epi32(upper(x)));
}
KVASIR_EMULATED __m256i cvtepi32_epi16(__m512i x) {  // truncates
  const __m256i low = _mm256_set1_epi32(0xffff);
  const Half512i h = halves(x);
  const __m256i words = _mm256_packus_epi32(_mm256_and_si256(h.low, low), _mm256_and_si256(h.high, low));
  return _mm256_permute4x64_epi64(words, 0xd8);
}
KVASIR_EMULATED __m128i cvtepi32_epi8(__m512i x) {  // truncates
  const __m256i words = _mm256_and_si256(cvtepi32_epi16(x), _mm256_set1_epi16(0xff));
  return _mm_packus_epi16(lower(words), upper(words));
}
KVASIR_EMULATED __m512 cvtepi32_ps(__m512i x) {
  const Half512i h = halves(x);
  return whole(_mm256_cvtepi32_ps(h.low), _mm256_cvtepi32_ps(h.high));
}
KVASIR_EMULATED __m512i cvtps_epi32(__m512 x) {  // as MXCSR says; out of range and NaN: 0x80000000
  const Half512 h = halves(x);
  return whole(_mm256_cvtps_epi32(h.low), _mm256_cvtps_epi32(h.high));
}
KVASIR_EMULATED __m512 cvtph_ps(__m256i x) { return whole(_mm256_cvtph_ps(lower(x)), _mm256_cvtph_ps(upper(x))); }
template <int rounding>
KVASIR_EMULATED __m256i cvtps_ph(__m512 x) {
  const Half512 h = halves(x);
  return _mm256_set_m128i(_mm256_cvtps_ph(h.high, rounding), _mm256_cvtps_ph(h.low, rounding));
}

template <int i>
KVASIR_EMULATED __m256 extractf32x8_ps(__m512 x) {
  return (i & 1) == 0 ? halves(x).low : halves(x).high;
}
template <int control>
KVASIR_EMULATED __m512 permute_ps(__m512 x) {
  const Half512 h = halves(x);
  return whole(_mm256_permute_ps(h.low, control), _mm256_permute_ps(h.high, control));
}
template <unsigned n>
KVASIR_EMULATED __m512i srai_epi32(__m512i x) {
  const Half512i h = halves(x);
  return whole(_mm256_srai_epi32(h.low, n), _mm256_srai_epi32(h.high, n));
}
template <unsigned i>
KVASIR_EMULATED __m128 quarter(Half512 x) {
  return _mm256_extractf128_ps((i & 2) == 0 ? x.low : x.high, i & 1);
}
template <unsigned control>  // in SIMDe 0.7.4 without an alias
KVASIR_EMULATED __m512 shuffle_f32x4(__m512 x, __m512 y) {
  const Half512 a = halves(x), b = halves(y);
  return whole(_mm256_set_m128(quarter<(control >> 2 & 3)>(a), quarter<(control & 3)>(a)),
               _mm256_set_m128(quarter<(control >> 6 & 3)>(b), quarter<(control >> 4 & 3)>(b)));
}
KVASIR_EMULATED __m512 zextps128_ps512(__m128 x) { return whole(_mm256_zextps128_ps256(x), _mm256_setzero_ps()); }
KVASIR_EMULATED __m512i zextsi128_si512(__m128i x) { return whole(_mm256_zextsi128_si256(x), _mm256_setzero_si256()); }

KVASIR_EMULATED int reduce_add_epi32(__m512i x) {
  const Half512i h = halves(x);
  const __m256i s = _mm256_add_epi32(h.low, h.high);
  const __m128i q = _mm_add_epi32(lower(s), upper(s));
  const __m128i d = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32(d, 0xb1)));
}

// --- in SIMDe 0.7.4, but not as Intel defines them -------------------------------------------------------------------

KVASIR_EMULATED __m512 abs_ps(__m512 x) {  // SIMDe: keeps the sign of -0 and NaN
  const __m256 bits = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  const Half512 h = halves(x);
  return whole(_mm256_and_ps(h.low, bits), _mm256_and_ps(h.high, bits));
}
template <int control>
KVASIR_EMULATED __m512 roundscale_ps(__m512 x) {  // SIMDe: leaves subnormal numbers as they are
  static_assert(control >> 4 == 0, "rounding to fractions is not emulated");
  const Half512 h = halves(x);
  return whole(_mm256_round_ps(h.low, control), _mm256_round_ps(h.high, control));
}
// a * 2^floor(b), rounded once. SIMDe: flushes subnormal numbers, 2^128 is infinite.
KVASIR_EMULATED float scalef(float a, float b) {
  if (a != a || b != b) return a + b;  // the first NaN, quiet
  if (b - b != 0) {                    // 2^-inf is 0, 2^inf infinite; 0 * inf is invalid
    const float factor = b > 0 ? b : 0.0f;
    return a * factor;
  }
  return __builtin_ldexpf(a, static_cast<int>(__builtin_fminf(__builtin_fmaxf(__builtin_floorf(b), -600), 600)));
}
KVASIR_EMULATED __m512 scalef_ps(__m512 a, __m512 b) {
  float x[16], n[16];
  _mm512_storeu_ps(x, a);
  _mm512_storeu_ps(n, b);
  for (int i = 0; i < 16; ++i) x[i] = scalef(x[i], n[i]);
  return _mm512_loadu_ps(x);
}
KVASIR_EMULATED __m512i load_si512(const void* p) {  // SIMDe: never faults
  if (reinterpret_cast<__UINTPTR_TYPE__>(p) % 64 != 0) __builtin_trap();
  return _mm512_loadu_si512(p);
}

// --- in SIMDe 0.7.4, but as loops over elements that take too long (or, in sums that wrap, are undefined in C)
// ----------

KVASIR_EMULATED __m512i madd_epi16(__m512i x, __m512i y) {
  const Half512i a = halves(x), b = halves(y);
  return whole(_mm256_madd_epi16(a.low, b.low), _mm256_madd_epi16(a.high, b.high));
}
KVASIR_EMULATED __m512i mullo_epi32(__m512i x, __m512i y) {
  const Half512i a = halves(x), b = halves(y);
  return whole(_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high));
}
// The products of the even and of the odd bytes of u (unsigned) and s (signed), as 16-bit numbers; nothing saturates.
KVASIR_EMULATED __m256i dpbusd_half(__m256i acc, __m256i u, __m256i s) {
  const __m256i even =
      _mm256_madd_epi16(_mm256_and_si256(u, _mm256_set1_epi16(0xff)), _mm256_srai_epi16(_mm256_slli_epi16(s, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(u, 8), _mm256_srai_epi16(s, 8));
  return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
}
KVASIR_EMULATED __m512i dpbusd_epi32(__m512i acc, __m512i u, __m512i s) {
  const Half512i a = halves(acc), x = halves(u), y = halves(s);
  return whole(dpbusd_half(a.low, x.low, y.low), dpbusd_half(a.high, x.high, y.high));
}
KVASIR_EMULATED __mmask64 join(unsigned low, unsigned high) { return low | static_cast<__mmask64>(high) << 32; }
KVASIR_EMULATED unsigned signs(__m256i bytes) { return static_cast<unsigned>(_mm256_movemask_epi8(bytes)); }
KVASIR_EMULATED __mmask64 movepi8_mask(__m512i x) { return join(signs(halves(x).low), signs(halves(x).high)); }
KVASIR_EMULATED __mmask64 test_epi8_mask(__m512i x, __m512i y) {
  const Half512i h = halves(_mm512_and_si512(x, y));
  const __m256i zero = _mm256_setzero_si256();
  return ~join(signs(_mm256_cmpeq_epi8(h.low, zero)), signs(_mm256_cmpeq_epi8(h.high, zero)));
}
KVASIR_EMULATED __m256i spread_bits(unsigned k) {  // 0 or -1 in byte i for bit i
  const __m256i byte_of = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(k)), byte_of);
  return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}
KVASIR_EMULATED __m512i mask_mov_epi8(__m512i src, __mmask64 k, __m512i x) {
  const Half512i a = halves(src), b = halves(x);
  return whole(_mm256_blendv_epi8(a.low, b.low, spread_bits(static_cast<unsigned>(k))),
               _mm256_blendv_epi8(a.high, b.high, spread_bits(static_cast<unsigned>(k >> 32))));
}
KVASIR_EMULATED __m256 spread_lanes(unsigned k) {  // the sign of lane i is bit i
  const __m256i shifts = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
  return _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_set1_epi32(static_cast<int>(k)), shifts));
}
KVASIR_EMULATED __m512 mask_mov_ps(__m512 src, __mmask16 k, __m512 x) {
  const Half512 a = halves(src), b = halves(x);
  return whole(_mm256_blendv_ps(a.low, b.low, spread_lanes(k)),
               _mm256_blendv_ps(a.high, b.high, spread_lanes(k >> 8u)));
}
template <int predicate>
KVASIR_EMULATED __mmask16 cmp_ps_mask(__m512 x, __m512 y) {
  const Half512 a = halves(x), b = halves(y);
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, predicate));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, predicate));
  return static_cast<__mmask16>(low | high << 8);
}
template <unsigned n>
KVASIR_EMULATED __m512i srli_epi16(__m512i x) {
  const Half512i h = halves(x);
  return whole(_mm256_srli_epi16(h.low, n), _mm256_srli_epi16(h.high, n));
}
template <unsigned n>
KVASIR_EMULATED __m512i slli_epi16(__m512i x) {
  const Half512i h = halves(x);
  return whole(_mm256_slli_epi16(h.low, n), _mm256_slli_epi16(h.high, n));
}
template <unsigned n>
KVASIR_EMULATED __m512i srai_epi16(__m512i x) {
  const Half512i h = halves(x);
  return whole(_mm256_srai_epi16(h.low, n), _mm256_srai_epi16(h.high, n));
}

#undef KVASIR_EMULATED

}  // namespace kvasir::simd::emulation

// clang-format off
#define KVASIR_EMULATED(name) ::kvasir::simd::emulation::name
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(x) KVASIR_EMULATED(cvtepi8_epi32)(x)
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(x) KVASIR_EMULATED(cvtepu8_epi32)(x)
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(x) KVASIR_EMULATED(cvtepu16_epi32)(x)
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(x) KVASIR_EMULATED(cvtepi32_epi16)(x)
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8(x) KVASIR_EMULATED(cvtepi32_epi8)(x)
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(x) KVASIR_EMULATED(cvtepi32_ps)(x)
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(x) KVASIR_EMULATED(cvtps_epi32)(x)
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(x) KVASIR_EMULATED(cvtph_ps)(x)
#undef _mm512_zextps128_ps512
#define _mm512_zextps128_ps512(x) KVASIR_EMULATED(zextps128_ps512)(x)
#undef _mm512_zextsi128_si512
#define _mm512_zextsi128_si512(x) KVASIR_EMULATED(zextsi128_si512)(x)
#undef _mm512_reduce_add_epi32
#define _mm512_reduce_add_epi32(x) KVASIR_EMULATED(reduce_add_epi32)(x)
#undef _mm512_abs_ps
#define _mm512_abs_ps(x) KVASIR_EMULATED(abs_ps)(x)
#undef _mm512_load_si512
#define _mm512_load_si512(x) KVASIR_EMULATED(load_si512)(x)
#undef _mm512_movepi8_mask
#define _mm512_movepi8_mask(x) KVASIR_EMULATED(movepi8_mask)(x)
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps(x, y) KVASIR_EMULATED(maskz_loadu_ps)(x, y)
#undef _mm512_scalef_ps
#define _mm512_scalef_ps(x, y) KVASIR_EMULATED(scalef_ps)(x, y)
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(x, y) KVASIR_EMULATED(madd_epi16)(x, y)
#undef _mm512_mullo_epi32
#define _mm512_mullo_epi32(x, y) KVASIR_EMULATED(mullo_epi32)(x, y)
#undef _mm512_test_epi8_mask
#define _mm512_test_epi8_mask(x, y) KVASIR_EMULATED(test_epi8_mask)(x, y)
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps(x, y, z) KVASIR_EMULATED(mask_storeu_ps)(x, y, z)
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32(x, y, z) KVASIR_EMULATED(dpbusd_epi32)(x, y, z)
#undef _mm512_mask_mov_epi8
#define _mm512_mask_mov_epi8(x, y, z) KVASIR_EMULATED(mask_mov_epi8)(x, y, z)
#undef _mm512_mask_mov_ps
#define _mm512_mask_mov_ps(x, y, z) KVASIR_EMULATED(mask_mov_ps)(x, y, z)
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(x, imm) KVASIR_EMULATED(cvtps_ph)<(imm)>(x)
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(x, imm) KVASIR_EMULATED(extractf32x8_ps)<(imm)>(x)
#undef _mm512_permute_ps
#define _mm512_permute_ps(x, imm) KVASIR_EMULATED(permute_ps)<(imm)>(x)
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(x, imm) KVASIR_EMULATED(srai_epi32)<(imm)>(x)
#undef _mm512_roundscale_ps
#define _mm512_roundscale_ps(x, imm) KVASIR_EMULATED(roundscale_ps)<(imm)>(x)
#undef _mm512_srli_epi16
#define _mm512_srli_epi16(x, imm) KVASIR_EMULATED(srli_epi16)<(imm)>(x)
#undef _mm512_slli_epi16
#define _mm512_slli_epi16(x, imm) KVASIR_EMULATED(slli_epi16)<(imm)>(x)
#undef _mm512_srai_epi16
#define _mm512_srai_epi16(x, imm) KVASIR_EMULATED(srai_epi16)<(imm)>(x)
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask(x, y, imm) KVASIR_EMULATED(cmp_ps_mask)<(imm)>(x, y)
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(x, y, imm) KVASIR_EMULATED(shuffle_f32x4)<(imm)>(x, y)
#undef _mm512_mask_sub_ps
#define _mm512_mask_sub_ps(src, k, x, y) KVASIR_EMULATED(mask_mov_ps)(src, k, _mm512_sub_ps(x, y))
#undef _mm512_mask_sub_epi8
#define _mm512_mask_sub_epi8(src, k, x, y) KVASIR_EMULATED(mask_mov_epi8)(src, k, _mm512_sub_epi8(x, y))
#undef _mm512_mask_shuffle_epi8
#define _mm512_mask_shuffle_epi8(src, k, x, y) KVASIR_EMULATED(mask_mov_epi8)(src, k, _mm512_shuffle_epi8(x, y))
// clang-format on
