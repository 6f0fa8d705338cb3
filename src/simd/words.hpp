// The 64 bytes of a vector as 32 numbers of 16 bits (simd/vec.hpp), for products whose operands need more than a byte.
//   even_words, odd_words   bytes 0, 2, 4 ... and 1, 3, 5 ..., signed
//   dot_words(acc, x, y)    acc[i] += x[2i] * y[2i] + x[2i+1] * y[2i+1]
#pragma once

#include "simd/vec.hpp"

namespace kvasir::simd::KVASIR_TARGET {

#if defined(KVASIR_TARGET_avx512) || defined(KVASIR_TARGET_avx512vnni)

KVASIR_INLINE Bytes even_words(Bytes x) { return {_mm512_srai_epi16(_mm512_slli_epi16(x.v, 8), 8)}; }
KVASIR_INLINE Bytes odd_words(Bytes x) { return {_mm512_srai_epi16(x.v, 8)}; }
KVASIR_INLINE I32 dot_words(I32 acc, Bytes x, Bytes y) {
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(x.v, y.v))};
}

#elif defined(KVASIR_TARGET_avx2)

KVASIR_INLINE Bytes even_words(Bytes x) {
  return {_mm256_srai_epi16(_mm256_slli_epi16(x.a, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(x.b, 8), 8)};
}
KVASIR_INLINE Bytes odd_words(Bytes x) { return {_mm256_srai_epi16(x.a, 8), _mm256_srai_epi16(x.b, 8)}; }
KVASIR_INLINE I32 dot_words(I32 acc, Bytes x, Bytes y) {
  return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y.a)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y.b))};
}

#else

template <class Word>
KVASIR_INLINE Bytes words_of(const Word& word) {
  std::int16_t w[32];
  for (int i = 0; i < 32; ++i) w[i] = word(i);
  Bytes r;
  __builtin_memcpy(&r, w, 64);
  return r;
}
KVASIR_INLINE Bytes even_words(Bytes x) {
  return words_of([&](int i) { return static_cast<std::int8_t>(x.v[2 * i]); });
}
KVASIR_INLINE Bytes odd_words(Bytes x) {
  return words_of([&](int i) { return static_cast<std::int8_t>(x.v[2 * i + 1]); });
}
KVASIR_INLINE I32 dot_words(I32 acc, Bytes x, Bytes y) {
  std::int16_t a[32], b[32];
  __builtin_memcpy(a, &x, 64);
  __builtin_memcpy(b, &y, 64);
  for (int i = 0; i < 32; ++i) acc.v[i / 2] += a[i] * b[i];
  return acc;
}

#endif

}  // namespace kvasir::simd::KVASIR_TARGET
