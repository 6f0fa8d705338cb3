// The transposition that every packing ends with: 32-bit words of 16 rows side by side.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/matmul.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

// out[16 j + r] = word j (of n) of rows[r]; 0 for a null row. Sixteen words of each row at a time, so that the 16 lines
// that are being filled stay in the L1 cache.
KVASIR_INLINE void interleave_words(const std::byte* const rows[kPanelRows], std::int64_t n, std::uint32_t* out) {
  static_assert(kPanelRows == 16);
  std::int64_t first = 0;
  for (; first + 16 <= n; first += 16, out += 256) {
    for (int r = 0; r < kPanelRows; ++r) {
      std::uint32_t word[16] = {};
      if (rows[r]) __builtin_memcpy(word, rows[r] + 4 * first, 64);
      for (int j = 0; j < 16; ++j) out[16 * j + r] = word[j];
    }
  }
  for (; first < n; ++first, out += 16) {
    for (int r = 0; r < kPanelRows; ++r) {
      out[r] = 0;
      if (rows[r]) __builtin_memcpy(out + r, rows[r] + 4 * first, 4);
    }
  }
}

}  // namespace kvasir::kernel::KVASIR_TARGET
