// Small scalar helpers that the files of weights/quants share: bit packing as GGUF lays it out, and rounding to codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/vec.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

// n bytes hold 2n codes: byte i has element i in its low and element i+n in its high nibble.
KVASIR_INLINE void nibbles(const std::byte* p, std::uint8_t* u, int n) {
  for (int i = 0; i < n; ++i) {
    u[i] = static_cast<std::uint8_t>(p[i]) & 15;
    u[i + n] = static_cast<std::uint8_t>(p[i]) >> 4;
  }
}
KVASIR_INLINE void put_nibbles(const std::uint8_t* u, std::byte* p, int n) {
  for (int i = 0; i < n; ++i) p[i] = static_cast<std::byte>((u[i] & 15) | u[i + n] << 4);
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

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
