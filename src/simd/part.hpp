// Vectors register by register, for loops that need more of them than AVX2 has: there a vector of simd/vec.hpp is two
// registers, and a loop that holds all its sums for one of them before it turns to the other does not spill. Elsewhere
// a part is the whole vector.
//
//   kParts     parts of a vector; part h is that part of its lanes, in order
//   BytePart   of Bytes
//   PairPart   of Pairs
//   LanePart   of I32
#pragma once

#include "simd/vec.hpp"

namespace kvasir::simd::KVASIR_TARGET {

// x & mask in every byte.
KVASIR_INLINE Bytes keep(Bytes x, std::uint8_t mask) { return and_(x, set1_bytes(mask)); }

#if defined(KVASIR_TARGET_avx2)

inline constexpr int kParts = 2;
struct BytePart {
  __m256i v;
};
struct PairPart {
  __m256i v;
};
struct LanePart {
  __m256i v;
};

template <int h>
KVASIR_INLINE LanePart part_of(I32 x) {
  return {h == 0 ? x.a : x.b};
}
template <int h>
KVASIR_INLINE void set_part(I32& x, LanePart y) {
  (h == 0 ? x.a : x.b) = y.v;
}
template <class V>
KVASIR_INLINE V load_as(const void* p) {
  if constexpr (sizeof(V) == sizeof(Bytes))
    return load_bytes(p);
  else
    return {load256(p)};
}
template <class V, int n, int h>
KVASIR_INLINE V load_unfolded_as(const void* p) {
  if constexpr (sizeof(V) == sizeof(Bytes))
    return load_unfolded<n>(p);
  else if constexpr (h == 0)
    return {load256(p)};
  else
    return {_mm256_srli_epi16(load256(p), n)};
}

KVASIR_INLINE BytePart keep(BytePart x, std::uint8_t mask) {
  return {_mm256_and_si256(x.v, _mm256_set1_epi8(static_cast<char>(mask)))};
}
KVASIR_INLINE BytePart or_(BytePart x, BytePart y) { return {_mm256_or_si256(x.v, y.v)}; }
template <int n>
KVASIR_INLINE BytePart shift_right16(BytePart x) {
  return {_mm256_srli_epi16(x.v, n)};
}
KVASIR_INLINE BytePart lookup16(Bytes table, BytePart i) { return {_mm256_shuffle_epi8(table.a, i.v)}; }
KVASIR_INLINE BytePart lookup32(Bytes low, Bytes high, BytePart i) { return {lookup32_half(low.a, high.a, i.v)}; }
KVASIR_INLINE BytePart broadcast4_part(const void* p) { return {broadcast4(p).a}; }
KVASIR_INLINE void store_part(void* p, BytePart x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x.v); }

KVASIR_INLINE LanePart zero_lanes() { return {_mm256_setzero_si256()}; }
KVASIR_INLINE LanePart add(LanePart x, LanePart y) { return {_mm256_add_epi32(x.v, y.v)}; }
KVASIR_INLINE LanePart dot_us(LanePart acc, BytePart u, BytePart s) { return {dot_us_half(acc.v, u.v, s.v)}; }
KVASIR_INLINE PairPart first_pairs(BytePart u, BytePart s) { return {_mm256_maddubs_epi16(u.v, s.v)}; }
KVASIR_INLINE PairPart dot_pairs(PairPart acc, BytePart u, BytePart s) {
  return {_mm256_add_epi16(acc.v, _mm256_maddubs_epi16(u.v, s.v))};
}
KVASIR_INLINE LanePart add_pairs(LanePart acc, PairPart x) {
  return {_mm256_add_epi32(acc.v, _mm256_madd_epi16(x.v, _mm256_set1_epi16(1)))};
}
KVASIR_INLINE BytePart even_words(BytePart x) { return {_mm256_srai_epi16(_mm256_slli_epi16(x.v, 8), 8)}; }
KVASIR_INLINE BytePart odd_words(BytePart x) { return {_mm256_srai_epi16(x.v, 8)}; }
KVASIR_INLINE LanePart dot_words(LanePart acc, BytePart x, BytePart y) {
  return {_mm256_add_epi32(acc.v, _mm256_madd_epi16(x.v, y.v))};
}
KVASIR_INLINE void pin(PairPart& x) {
  __m256i v = x.v;
  asm("" : "+x"(v));
  x.v = v;
}
KVASIR_INLINE void pin(LanePart& x) {
  __m256i v = x.v;
  asm("" : "+x"(v));
  x.v = v;
}

// Of 16 int8: elements 4 i and 4 i + 2 as the 16-bit halves of even[i], the other two of odd[i].
KVASIR_INLINE void spread_words(const std::int8_t* x, std::int32_t* even, std::int32_t* odd) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(even), _mm_srai_epi16(_mm_slli_epi16(v, 8), 8));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(odd), _mm_srai_epi16(v, 8));
}

#else

inline constexpr int kParts = 1;
using BytePart = Bytes;
using PairPart = Pairs;
using LanePart = I32;

template <int h>
KVASIR_INLINE LanePart part_of(I32 x) {
  return x;
}
template <int h>
KVASIR_INLINE void set_part(I32& x, LanePart y) {
  x = y;
}
// V is Bytes or BytePart. The vector at p; part h of what load_unfolded<n> gives.
template <class V>
KVASIR_INLINE V load_as(const void* p) {
  return load_bytes(p);
}
template <class V, int n, int h>
KVASIR_INLINE V load_unfolded_as(const void* p) {
  return load_unfolded<n>(p);
}
KVASIR_INLINE BytePart broadcast4_part(const void* p) { return broadcast4(p); }
KVASIR_INLINE void store_part(void* p, BytePart x) { store_bytes(p, x); }
KVASIR_INLINE LanePart zero_lanes() { return zero_i32(); }

#if KVASIR_STEPWISE_DOTS
KVASIR_INLINE PairPart first_pairs(BytePart u, BytePart s) { return {_mm512_maddubs_epi16(u.v, s.v)}; }
KVASIR_INLINE void spread_words(const std::int8_t* x, std::int32_t* even, std::int32_t* odd) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(even), _mm_srai_epi16(_mm_slli_epi16(v, 8), 8));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(odd), _mm_srai_epi16(v, 8));
}
#endif

#endif

}  // namespace kvasir::simd::KVASIR_TARGET
