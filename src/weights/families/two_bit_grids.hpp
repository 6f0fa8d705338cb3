// IQ2_XXS, IQ2_XS, IQ2_S: vectors of 8 sizes out of {8, 25, 43}, each with a sign, x = d (2 s + 1) / 8 times that.
// In panels every element has a code of 3 bits: the digit, and the sign in bit 2.
#pragma once

#include "kernel/int_panels.hpp"
#include "weights/families/grid_search.hpp"
#include "weights/families/grids.hpp"
#include "weights/families/odd_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

template <int kPerSub>
struct TwoBitGrids : OddScales<kPerSub> {
  static constexpr int kBits = 3;
  static constexpr bool kMin = false;
  static constexpr std::int8_t kLevels[16] = {8, 25, 43, 0, -8, -25, -43};
  static constexpr float kUnit = 0.125f;

  KVASIR_INLINE void load_head(const std::byte* head, int sub, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32*) {
    OddScales<kPerSub>::load_scales(head, sub, kUnit, d);
  }
  // 8 codes from a vector's digits and a byte of signs.
  KVASIR_INLINE void put_codes(std::uint32_t digits, std::uint32_t signs, std::uint8_t* u) {
    const std::uint64_t codes = spread_pairs(digits) | spread_bits(signs) << 2;
    __builtin_memcpy(u, &codes, 8);
  }
  static float level(int digit) { return static_cast<float>(kLevels[digit]); }
};

// What the largest element of a sub-block becomes; the smallest size is for elements that are all alike.
template <class Book, int kElements, bool kEven>
struct TwoBitPart : SignedPart<Book, kElements, kEven> {
  static constexpr float kTargets[] = {34.0f, 39.0f, 43.0f, 48.0f, 8.0f};
};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
