// Scales in f32 of few bits: sums of products are then scaled with one rounding (kernel/int_sums.hpp).
#pragma once

#include <cstdint>

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

// The nearest number of 16 significant bits. REQUIRES: finite.
inline float shortened(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  bits = (bits + 128) & ~std::uint32_t{255};
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
