// What types with a table of 16 levels share: x = d level[u] with u of 4 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/vec.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

// IQ4_NL and IQ4_XS: more levels where more of a normal distribution lies.
struct NonLinear {
  static constexpr std::int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
};

// Twice the values of E2M1, a float of four bits.
struct FourBitFloat {
  static constexpr std::int8_t kLevels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
};

// The codes of the levels nearest to n floats; of two alike the first. 0 where d is 0.
KVASIR_INLINE void encode_levels(const float* x, int n, float d, const std::int8_t (&levels)[16], std::uint8_t* u) {
  for (int i = 0; i < n; ++i) {
    const float wanted = d != 0.0f ? x[i] / d : 0.0f;  // 1 / d may be too large
    float least = __builtin_inff();
    u[i] = 0;
    for (int j = 0; j < 16; ++j) {
      const float off = __builtin_fabsf(wanted - static_cast<float>(levels[j]));
      if (off >= least) continue;
      least = off;
      u[i] = static_cast<std::uint8_t>(j);
    }
  }
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
