// Grids of the i-quants: sets of vectors of 4 or 8 small digits, of which a file stores the number. What they hold is a
// fact of the format (ggml-common.h of llama.cpp; gguf-py, quants.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/vec.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

// The vectors of a grid, ascending by the sum of digit[i] * kBase^i: entry n is vector number n, digit i in the bits
// from kWidth * i on.
template <int kEntries, int kDigits, int kBase>
struct Grid {
  static constexpr int kSize = kEntries, kLength = kDigits, kWidth = 16 / kDigits;
  std::uint16_t at[kEntries];

  constexpr int digit(int entry, int i) const { return at[entry] >> (kWidth * i) & ((1 << kWidth) - 1); }
};

// A grid from which of all vectors it holds, six to a character of base64: bit j of character k is set if vector 6k + j
// (its digits as those of a number of base kBase) is one of them.
template <int kEntries, int kDigits, int kBase>
constexpr Grid<kEntries, kDigits, kBase> grid_of(const char* text) {
  Grid<kEntries, kDigits, kBase> grid{};
  int found = 0, number = 0;
  for (; *text != 0; ++text) {
    const char c = *text;
    const int six = c >= 'a' ? c - 'a' + 26 : c >= 'A' ? c - 'A' : c >= '0' ? c - '0' + 52 : c == '+' ? 62 : 63;
    for (int j = 0; j < 6; ++j, ++number) {
      if ((six >> j & 1) == 0) continue;
      int packed = 0;
      for (int i = 0, rest = number; i < kDigits; ++i, rest /= kBase) packed |= rest % kBase << (16 / kDigits * i);
      grid.at[found++] = static_cast<std::uint16_t>(packed);  // one too many does not compile
    }
  }
  return found == kEntries ? grid : throw "a grid has another number of entries";
}

// One byte for each of 8 digits of 2 bits, of 4 digits of 4 bits, of 8 bits; the first in the lowest byte.
KVASIR_INLINE std::uint64_t spread_pairs(std::uint32_t v) {
  std::uint64_t x = v;
  x = (x | x << 24) & 0x000000ff000000ff;
  x = (x | x << 12) & 0x000f000f000f000f;
  return (x | x << 6) & 0x0303030303030303;
}
KVASIR_INLINE std::uint32_t spread_nibbles(std::uint32_t v) {
  const std::uint32_t x = (v | v << 8) & 0x00ff00ff;
  return (x | x << 4) & 0x0f0f0f0f;
}
KVASIR_INLINE std::uint64_t spread_bits(std::uint32_t v) {
  const std::uint64_t x = v * 0x0101010101010101u & 0x8040201008040201;
  return (((x & 0x7f7f7f7f7f7f7f7f) + 0x7f7f7f7f7f7f7f7f) | x) >> 7 & 0x0101010101010101;
}

// Signs of 8 elements of which 7 bits are stored: there is an even number of negative ones.
KVASIR_INLINE std::uint32_t even_signs(std::uint32_t seven) {
  return seven | (static_cast<std::uint32_t>(__builtin_popcount(seven)) & 1) << 7;
}

KVASIR_INLINE std::uint16_t word16(const std::byte* p) {
  std::uint16_t x;
  __builtin_memcpy(&x, p, 2);
  return x;
}
KVASIR_INLINE std::uint32_t word32(const std::byte* p) {
  std::uint32_t x;
  __builtin_memcpy(&x, p, 4);
  return x;
}
KVASIR_INLINE std::uint32_t byte_at(const std::byte* p) { return static_cast<std::uint32_t>(*p); }

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
