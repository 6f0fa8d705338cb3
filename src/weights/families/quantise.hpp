// Small scalar helpers that the files of weights/quants share: bit packing as GGUF lays it out, and rounding to codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/int_panels.hpp"
#include "simd/vec.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

// n bytes (a multiple of 8) hold 2n codes: byte i has element i in its low and element i+n in its high nibble. By words
// of 8 codes, because packing spends its time here and GCC 12 takes a loop over 16 bytes to pieces.
KVASIR_INLINE void nibbles(const std::byte* p, std::uint8_t* u, int n) {
  constexpr std::uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
  for (int i = 0; i < n; i += 8) {
    std::uint64_t both;
    __builtin_memcpy(&both, p + i, 8);
    const std::uint64_t low = both & kLow;
    const std::uint64_t high = both >> 4 & kLow;
    __builtin_memcpy(u + i, &low, 8);
    __builtin_memcpy(u + n + i, &high, 8);
  }
}
KVASIR_INLINE void put_nibbles(const std::uint8_t* u, std::byte* p, int n) {
  for (int i = 0; i < n; ++i) p[i] = static_cast<std::byte>((u[i] & 15) | u[i + n] << 4);
}

// The fifth bits of 32 codes: bit i of a little-endian word belongs to element i.
KVASIR_INLINE void add_fifth_bits(const std::byte* p, std::uint8_t* u) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, p, 4);
  for (int i = 0; i < 32; ++i) u[i] |= static_cast<std::uint8_t>((bits >> i & 1) << 4);
}
KVASIR_INLINE void put_fifth_bits(const std::uint8_t* u, std::byte* p) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<std::uint32_t>(u[i] >> 4 & 1) << i;
  __builtin_memcpy(p, &bits, 4);
}

// Bit `to` of 256 codes in 32 bytes: bit j of byte i belongs to element 32j + i.
KVASIR_INLINE void add_bit_planes(const std::byte* p, int to, std::uint8_t* u) {
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 32; ++i) u[32 * j + i] |= static_cast<std::uint8_t>((static_cast<int>(p[i]) >> j & 1) << to);
}
KVASIR_INLINE void put_bit_planes(const std::uint8_t* u, int from, std::byte* p) {
  for (int i = 0; i < 32; ++i) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (u[32 * j + i] >> from & 1) << j;
    p[i] = static_cast<std::byte>(bits);
  }
}

// The low two bits of 128 codes in 32 bytes: byte i has elements i, i+32, i+64, i+96 from low to high bits.
KVASIR_INLINE void bit_pairs(const std::byte* p, std::uint8_t* u) {
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 32; ++i) u[32 * j + i] = static_cast<std::uint8_t>(static_cast<int>(p[i]) >> (2 * j) & 3);
}
KVASIR_INLINE void put_bit_pairs(const std::uint8_t* u, std::byte* p) {
  for (int i = 0; i < 32; ++i)
    p[i] = static_cast<std::byte>((u[i] & 3) | (u[i + 32] & 3) << 2 | (u[i + 64] & 3) << 4 | (u[i + 96] & 3) << 6);
}

// The element of largest magnitude, with its sign.
KVASIR_INLINE float extreme(const float* x, int n) {
  float best = 0.0f;
  for (int i = 0; i < n; ++i)
    if (__builtin_fabsf(x[i]) > __builtin_fabsf(best)) best = x[i];
  return best;
}
KVASIR_INLINE float smallest(const float* x, int n) {
  float best = x[0];
  for (int i = 1; i < n; ++i) best = x[i] < best ? x[i] : best;
  return best;
}
KVASIR_INLINE float largest(const float* x, int n) {
  float best = x[0];
  for (int i = 1; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

// u = clamp(round((x - m) / d) + zero, 0, top); 0 where d is 0.
KVASIR_INLINE void encode(const float* x, int n, float d, float m, int zero_point, int top, std::uint8_t* u) {
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  for (int i = 0; i < n; ++i) {
    const float scaled = __builtin_nearbyintf((x[i] - m) * inverse) + static_cast<float>(zero_point);
    const float low = scaled > 0.0f ? scaled : 0.0f;
    u[i] = static_cast<std::uint8_t>(low < static_cast<float>(top) ? low : static_cast<float>(top));
  }
}

// Scale and minimum (two f16, written to the first 4 bytes of `block`) and codes in [0, top] of n floats, by range.
KVASIR_INLINE void quantise_range(const float* x, int n, int top, std::byte* block, std::uint8_t* u) {
  using kernel::KVASIR_TARGET::half_at;
  using kernel::KVASIR_TARGET::put_half_value;
  const float low = smallest(x, n);
  put_half_value((largest(x, n) - low) / static_cast<float>(top), block);
  put_half_value(low, block + 2);
  encode(x, n, half_at(block), half_at(block + 2), 0, top, u);
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
