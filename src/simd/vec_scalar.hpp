// simd/vec.hpp in plain C++: the reference that the instruction sets are tested against.
#pragma once

#include <cmath>

#include "simd/half.hpp"

#define KVASIR_HAS_VNNI 0
#define KVASIR_HAS_BF16 0
#define KVASIR_STEPWISE_DOTS 0
#define KVASIR_VECTOR_REGISTERS 8

namespace kvasir::simd::KVASIR_TARGET {

struct F32 {
  float v[16];
};
struct I32 {
  std::int32_t v[16];
};
struct Bytes {
  std::uint8_t v[64];
};

#define KVASIR_EACH(T, expression)                    \
  T r;                                                \
  for (int i = 0; i < 16; ++i) r.v[i] = (expression); \
  return r

KVASIR_INLINE F32 set1(float x) { KVASIR_EACH(F32, x); }
KVASIR_INLINE F32 zero() { return set1(0.0f); }
KVASIR_INLINE F32 load(const float* p) { KVASIR_EACH(F32, p[i]); }
KVASIR_INLINE void store(float* p, F32 a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
// The first n (0..16) lanes; the others are 0 / not written.
KVASIR_INLINE F32 load_n(const float* p, int n) { KVASIR_EACH(F32, i < n ? p[i] : 0.0f); }
KVASIR_INLINE void store_n(float* p, F32 a, int n) {
  for (int i = 0; i < 16 && i < n; ++i) p[i] = a.v[i];
}
KVASIR_INLINE F32 add(F32 a, F32 b) { KVASIR_EACH(F32, a.v[i] + b.v[i]); }
KVASIR_INLINE F32 sub(F32 a, F32 b) { KVASIR_EACH(F32, a.v[i] - b.v[i]); }
KVASIR_INLINE F32 mul(F32 a, F32 b) { KVASIR_EACH(F32, a.v[i] * b.v[i]); }
KVASIR_INLINE F32 div(F32 a, F32 b) { KVASIR_EACH(F32, a.v[i] / b.v[i]); }
KVASIR_INLINE F32 fma(F32 a, F32 b, F32 c) { KVASIR_EACH(F32, __builtin_fmaf(a.v[i], b.v[i], c.v[i])); }
KVASIR_INLINE F32 max(F32 a, F32 b) { KVASIR_EACH(F32, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
KVASIR_INLINE F32 min(F32 a, F32 b) { KVASIR_EACH(F32, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
KVASIR_INLINE F32 abs(F32 a) { KVASIR_EACH(F32, __builtin_fabsf(a.v[i])); }
KVASIR_INLINE F32 limit_size(F32 a, F32 limit) {
  KVASIR_EACH(F32, __builtin_copysignf(__builtin_fabsf(a.v[i]) < limit.v[i] ? a.v[i] : limit.v[i], a.v[i]));
}
KVASIR_INLINE F32 sqrt(F32 a) { KVASIR_EACH(F32, __builtin_sqrtf(a.v[i])); }
KVASIR_INLINE F32 round(F32 a) { KVASIR_EACH(F32, __builtin_nearbyintf(a.v[i])); }
KVASIR_INLINE F32 scale2(F32 a, F32 n) {
  KVASIR_EACH(F32, n.v[i] == n.v[i] ? __builtin_ldexpf(a.v[i], static_cast<int>(n.v[i])) : n.v[i]);
}
KVASIR_INLINE F32 zero_if_less(F32 x, F32 limit, F32 a) { KVASIR_EACH(F32, x.v[i] < limit.v[i] ? 0.0f : a.v[i]); }
KVASIR_INLINE F32 select_first(int n, F32 a, F32 b) { KVASIR_EACH(F32, i < n ? a.v[i] : b.v[i]); }
KVASIR_INLINE float reduce_add(F32 a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  return a.v[0];
}
KVASIR_INLINE float reduce_max(F32 a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  return a.v[0];
}

template <int h>  // lanes i and i + h (bit h of i clear) become a[i] + a[i + h] and a[i] - a[i + h]
KVASIR_INLINE F32 butterfly(F32 a) {
  KVASIR_EACH(F32, i & h ? a.v[i - h] - a.v[i] : a.v[i] + a.v[i + h]);
}

KVASIR_INLINE F32 load_f16(const std::uint16_t* p) { KVASIR_EACH(F32, f16_to_f32(p[i])); }
KVASIR_INLINE void store_f16(std::uint16_t* p, F32 a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_f16(a.v[i]);
}
KVASIR_INLINE F32 load_bf16(const std::uint16_t* p) { KVASIR_EACH(F32, bf16_to_f32(p[i])); }
KVASIR_INLINE void store_bf16(std::uint16_t* p, F32 a) {
  for (int i = 0; i < 16; ++i) p[i] = f32_to_bf16(a.v[i]);
}

KVASIR_INLINE I32 set1_i32(std::int32_t x) { KVASIR_EACH(I32, x); }
KVASIR_INLINE I32 zero_i32() { return set1_i32(0); }
KVASIR_INLINE I32 load_i32(const std::int32_t* p) { KVASIR_EACH(I32, p[i]); }
KVASIR_INLINE void store_i32(std::int32_t* p, I32 a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
KVASIR_INLINE I32 add(I32 a, I32 b) { KVASIR_EACH(I32, a.v[i] + b.v[i]); }
KVASIR_INLINE I32 sub(I32 a, I32 b) { KVASIR_EACH(I32, a.v[i] - b.v[i]); }
KVASIR_INLINE I32 mul(I32 a, I32 b) { KVASIR_EACH(I32, a.v[i] * b.v[i]); }
KVASIR_INLINE I32 load_i8(const std::int8_t* p) { KVASIR_EACH(I32, p[i]); }
KVASIR_INLINE I32 load_u8(const std::uint8_t* p) { KVASIR_EACH(I32, p[i]); }
KVASIR_INLINE I32 and_(I32 a, I32 b) { KVASIR_EACH(I32, a.v[i] & b.v[i]); }
KVASIR_INLINE I32 shift_right(I32 a, int n) {
  KVASIR_EACH(I32, static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) >> n));
}
template <int entries>
KVASIR_INLINE F32 lookup(F32 table, I32 index) {
  KVASIR_EACH(F32, table.v[index.v[i] & 15]);
}
KVASIR_INLINE F32 to_f32(I32 a) { KVASIR_EACH(F32, static_cast<float>(a.v[i])); }
KVASIR_INLINE F32 bits_to_f32(I32 a) {
  F32 r;
  __builtin_memcpy(r.v, a.v, 64);
  return r;
}
KVASIR_INLINE I32 f32_to_bits(F32 a) {
  I32 r;
  __builtin_memcpy(r.v, a.v, 64);
  return r;
}
template <int n>
KVASIR_INLINE I32 shift_right32(I32 a) {
  KVASIR_EACH(I32, a.v[i] >> n);
}
template <int n>
KVASIR_INLINE I32 shift_left32(I32 a) {
  KVASIR_EACH(I32, static_cast<std::int32_t>(static_cast<std::uint32_t>(a.v[i]) << n));
}
// To nearest even; out of range and NaN give INT32_MIN as the hardware does.
KVASIR_INLINE I32 to_i32(F32 a) {
  KVASIR_EACH(I32, (a.v[i] >= -2147483648.0f && a.v[i] < 2147483648.0f)
                       ? static_cast<std::int32_t>(__builtin_nearbyintf(a.v[i]))
                       : INT32_MIN);
}
KVASIR_INLINE void store_low_bytes(void* p, I32 a) {
  for (int i = 0; i < 16; ++i) static_cast<std::uint8_t*>(p)[i] = static_cast<std::uint8_t>(a.v[i]);
}
KVASIR_INLINE Bytes to_signed_bytes(I32 a, I32 b, I32 c, I32 d) {
  Bytes r;
  for (int i = 0; i < 64; ++i) {
    const std::int32_t x = (i < 16 ? a : i < 32 ? b : i < 48 ? c : d).v[i % 16];
    r.v[i] = static_cast<std::uint8_t>(x < -128 ? -128 : x > 127 ? 127 : x);
  }
  return r;
}
KVASIR_INLINE std::int32_t reduce_add(I32 a) {
  std::int32_t s = 0;
  for (int i = 0; i < 16; ++i) s += a.v[i];
  return s;
}
KVASIR_INLINE F32 reduce_add4(const F32* x) {
  F32 r = zero();
  for (int i = 0; i < 4; ++i) r.v[i] = reduce_add(x[i]);
  return r;
}
KVASIR_INLINE F32 reduce_max4(const F32* x) {
  F32 r = zero();
  for (int i = 0; i < 4; ++i) r.v[i] = reduce_max(x[i]);
  return r;
}
KVASIR_INLINE I32 reduce_add4(const I32* x) {
  I32 r{};
  for (int i = 0; i < 4; ++i) r.v[i] = reduce_add(x[i]);
  return r;
}
template <int N>
KVASIR_INLINE F32 reduce_add_rows(const F32* x) {
  KVASIR_EACH(F32, i < N ? reduce_add(x[i]) : 0.0f);
}
template <int N>
KVASIR_INLINE F32 reduce_max_rows(const F32* x) {
  KVASIR_EACH(F32, i < N ? reduce_max(x[i]) : 0.0f);
}
template <int N>
KVASIR_INLINE I32 reduce_add_rows(const I32* x) {
  KVASIR_EACH(I32, i < N ? reduce_add(x[i]) : 0);
}
#undef KVASIR_EACH
#define KVASIR_EACH(expression)                                                \
  Bytes r;                                                                     \
  for (int i = 0; i < 64; ++i) r.v[i] = static_cast<std::uint8_t>(expression); \
  return r

KVASIR_INLINE Bytes set1_bytes(std::uint8_t x) { KVASIR_EACH(x); }
KVASIR_INLINE Bytes zero_bytes() { return set1_bytes(0); }
KVASIR_INLINE Bytes load_bytes(const void* p) { KVASIR_EACH(static_cast<const std::uint8_t*>(p)[i]); }
KVASIR_INLINE void store_bytes(void* p, Bytes a) { __builtin_memcpy(p, a.v, 64); }
KVASIR_INLINE Bytes broadcast4(const void* p) { KVASIR_EACH(static_cast<const std::uint8_t*>(p)[i % 4]); }
KVASIR_INLINE Bytes and_(Bytes a, Bytes b) { KVASIR_EACH(a.v[i] & b.v[i]); }
KVASIR_INLINE Bytes or_(Bytes a, Bytes b) { KVASIR_EACH(a.v[i] | b.v[i]); }
KVASIR_INLINE Bytes xor_(Bytes a, Bytes b) { KVASIR_EACH(a.v[i] ^ b.v[i]); }
KVASIR_INLINE Bytes sub8(Bytes a, Bytes b) { KVASIR_EACH(a.v[i] - b.v[i]); }
#undef KVASIR_EACH
KVASIR_INLINE int word(const Bytes& a, int i) { return a.v[2 * i] | a.v[2 * i + 1] << 8; }
template <int n>
KVASIR_INLINE Bytes shift_right16(Bytes a) {
  Bytes r;
  for (int i = 0; i < 32; ++i) {
    const int x = word(a, i) >> n;
    r.v[2 * i] = static_cast<std::uint8_t>(x);
    r.v[2 * i + 1] = static_cast<std::uint8_t>(x >> 8);
  }
  return r;
}
template <int n>
KVASIR_INLINE Bytes shift_left16(Bytes a) {
  Bytes r;
  for (int i = 0; i < 32; ++i) {
    const int x = word(a, i) << n;
    r.v[2 * i] = static_cast<std::uint8_t>(x);
    r.v[2 * i + 1] = static_cast<std::uint8_t>(x >> 8);
  }
  return r;
}

KVASIR_INLINE I32 dot_us(I32 acc, Bytes u, Bytes s) {
  for (int i = 0; i < 64; ++i) acc.v[i / 4] += u.v[i] * static_cast<std::int8_t>(s.v[i]);
  return acc;
}
KVASIR_INLINE I32 dot_ss(I32 acc, Bytes a, Bytes b) {
  for (int i = 0; i < 64; ++i) acc.v[i / 4] += static_cast<std::int8_t>(a.v[i]) * static_cast<std::int8_t>(b.v[i]);
  return acc;
}

// Elsewhere sums in 16 bits.
inline constexpr std::int32_t kPairSum = INT32_MAX;
struct Pairs {
  I32 sum;
};
KVASIR_INLINE Pairs zero_pairs() { return {zero_i32()}; }
KVASIR_INLINE Pairs dot_pairs(Pairs acc, Bytes u, Bytes s) { return {dot_us(acc.sum, u, s)}; }
KVASIR_INLINE I32 add_pairs(I32 acc, Pairs x) { return add(acc, x.sum); }
KVASIR_INLINE void pin(Pairs&) {}
KVASIR_INLINE void pin(I32&) {}

#define KVASIR_EACH(expression)                                                \
  Bytes r;                                                                     \
  for (int i = 0; i < 64; ++i) r.v[i] = static_cast<std::uint8_t>(expression); \
  return r

KVASIR_INLINE Bytes repeat16(const void* p) { KVASIR_EACH(static_cast<const std::uint8_t*>(p)[i % 16]); }
KVASIR_INLINE Bytes lookup16(Bytes table, Bytes x) { KVASIR_EACH(table.v[x.v[i] & 15]); }
KVASIR_INLINE Bytes lookup32(Bytes low, Bytes high, Bytes x) { KVASIR_EACH((x.v[i] & 16 ? high : low).v[x.v[i] & 15]); }
KVASIR_INLINE Bytes interleave4(const std::uint8_t* p, std::ptrdiff_t stride) {
  KVASIR_EACH(p[i % 4 * stride + i / 4]);
}
#undef KVASIR_EACH
template <int n>
KVASIR_INLINE Bytes load_unfolded(const void* p) {
  Bytes x;
  __builtin_memcpy(x.v, p, 32);
  __builtin_memcpy(x.v + 32, p, 32);
  const Bytes shifted = shift_right16<n>(x);
  __builtin_memcpy(x.v + 32, shifted.v + 32, 32);
  return x;
}
template <int n>
KVASIR_INLINE void store_folded(void* p, Bytes x) {
  for (int i = 0; i < 32; ++i) static_cast<std::uint8_t*>(p)[i] = static_cast<std::uint8_t>(x.v[i] | x.v[32 + i] << n);
}
template <int r>
KVASIR_INLINE I32 byte(Bytes x) {
  I32 y;
  for (int i = 0; i < 16; ++i) y.v[i] = x.v[4 * i + r];
  return y;
}
template <int r>
KVASIR_INLINE I32 signed_byte(Bytes x) {
  I32 y;
  for (int i = 0; i < 16; ++i) y.v[i] = static_cast<std::int8_t>(x.v[4 * i + r]);
  return y;
}

// The two steps of dot_us apart, and sums in between, in 16-bit lanes that wrap.
KVASIR_INLINE void put_word(Bytes& a, int i, int x) {
  a.v[2 * i] = static_cast<std::uint8_t>(x);
  a.v[2 * i + 1] = static_cast<std::uint8_t>(x >> 8);
}
KVASIR_INLINE Bytes multiply_pairs(Bytes u, Bytes s) {
  Bytes r;
  for (int i = 0; i < 32; ++i)
    put_word(
        r, i,
        u.v[2 * i] * static_cast<std::int8_t>(s.v[2 * i]) + u.v[2 * i + 1] * static_cast<std::int8_t>(s.v[2 * i + 1]));
  return r;
}
KVASIR_INLINE Bytes add16(Bytes a, Bytes b) {
  for (int i = 0; i < 32; ++i) put_word(a, i, word(a, i) + word(b, i));
  return a;
}
KVASIR_INLINE Bytes sub16(Bytes a, Bytes b) {
  for (int i = 0; i < 32; ++i) put_word(a, i, word(a, i) - word(b, i));
  return a;
}
KVASIR_INLINE void pin(Bytes&) {}
// (x[2i] + x[2i+1]) * factor of 16-bit lanes.
KVASIR_INLINE I32 add_pairs(Bytes a, std::int16_t factor) {
  I32 r;
  for (int i = 0; i < 16; ++i)
    r.v[i] = (static_cast<std::int16_t>(word(a, 2 * i)) + static_cast<std::int16_t>(word(a, 2 * i + 1))) * factor;
  return r;
}
// Of 16 int8: sum of elements 0, 1 of every four (low 16 bits) and of elements 2, 3.
KVASIR_INLINE std::int32_t pair_sums(const std::int8_t* q) {
  std::int32_t low = 0, high = 0;
  for (int i = 0; i < 16; i += 4) {
    low += q[i] + q[i + 1];
    high += q[i + 2] + q[i + 3];
  }
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(high) << 16 | (static_cast<std::uint32_t>(low) & 0xffff));
}

// The 64 bytes as 32 numbers of 16 bits: their even bytes, their odd bytes, signed; acc[i] += x[2i] y[2i] + x[2i+1]
// y[2i+1].
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

}  // namespace kvasir::simd::KVASIR_TARGET
