// IQ3_XXS: super-blocks of 256 in 8 sub-blocks of 32, x = d (2 s + 1) / 2 level, vectors of 4 out of 256.
//              f16 d
//    64 bytes  the numbers of the vectors
//    32 bytes  of every sub-block a word of 32 bits: 4 times 7 signs of 8 elements from the low bits on (the eighth
//              makes the number of negative ones even), s in bits 28-31
// In panels every element has a code of 4 bits: the digit, and the sign in bit 3.
#include "weights/families/grid_search.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/odd_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : OddScales<1> {
  static constexpr int kBits = 4, kBlockBytes = 98, kWords = 66;
  static constexpr bool kMin = false;
  static constexpr std::int8_t kLevels[16] = {2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31};
  static constexpr float kUnit = 0.5f;
  static constexpr auto kGrid = grid_of<256, 4, 8>(
      "VoYBCQAAAgiCFISBCABABUhAFoIACCAICWAIAAAAAEAAIAAgQAIAoIIAAQAAEAAAAAAAgAAAQAAARBAAIAgAAoQBKUBgBAAAFIQBAAAAAAgC"
      "FIQAAAAAEUAABIAQAAEAiAAAAAQAAAAAAEBAABAACACAAAAAAAAAAAABAEAAAAQBKUkAEAAAAoSBCEAAAgYAFIYBAGAIAAgARAAAAAAARAAA"
      "AACAIAAAIAAgAIAAAABAAAAAAAAAAoAQAAAIAAAACUgCAAQAgQQBAEgAQBAAAoQAgAAAEAABAIAAIAAAAAAAAAQAACAAEEEAEAAAgAAAAABA"
      "ABAAIAAAAAACAAQAAABgAAKAICAAAAAAAAAAAABAAEAgBAQQAAIAAAAIAAAAQAAAAAgAQAAAAACAIAAABAAAAAAAAAAAgUAABAAAAAAAEAAA"
      "CAAABEEAABAAgAAAAABAEAAAAQABAAAAAgAAAAQAICAAAAABEAAACAAAAAAAAAAAAEAAAAAAQAABAAAAAAAEAAFAQAAAAIAAAAgAAAAgAAAA"
      "AABAAAAABBAAAAAAAAAAQAAAAACAAAAAEAAAAAAAIAAAAAACAIAAAAAAAgaAAQAAEAAAAAAQAEAAAAAAEAAAgQAAAEAIAgAAAEAAAAgAAIAA"
      "AAQBAABAAAAAAAAAAEAAAAAAAAAAAAAAAAA");
  static float level(int digit) { return static_cast<float>(kLevels[digit]); }
  static const Points<256, 4>& points() {
    static const Points<256, 4> all(kGrid, level);
    return all;
  }

  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int g = 0; g < 32; ++g, u += 8) {
      const std::byte* n = block + 2 + 2 * g;
      const std::uint64_t high = spread_nibbles(kGrid.at[byte_at(n + 1)]);
      const std::uint32_t signs = even_signs(word32(block + kWords + 4 * (g / 4)) >> 7 * (g % 4) & 127);
      const std::uint64_t codes = spread_nibbles(kGrid.at[byte_at(n)]) | high << 32 | spread_bits(signs) << 3;
      __builtin_memcpy(u, &codes, 8);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
    for (int j = 0; j < 8; ++j) put_scale(j, word32(block + kWords + 4 * j) >> 28, row, head);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int sub, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32*) {
    load_scales(head, sub, kUnit, d);
  }
};

struct Part : SignedPart<Format, 32, true> {
  static constexpr float kTargets[] = {25.0f, 28.0f, 31.0f, 34.0f, 2.0f};
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  Part parts[8];
  std::uint8_t s[8];
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    round_to_grid<15>(row, Format::kUnit, out, s, parts);
    for (int j = 0; j < 8; ++j) {
      std::uint32_t word = static_cast<std::uint32_t>(s[j]) << 28;
      for (int l = 0; l < 4; ++l) word |= (parts[j].sign[l] & 127u) << 7 * l;
      __builtin_memcpy(out + Format::kWords + 4 * j, &word, 4);
      for (int l = 0; l < 8; ++l) out[2 + 8 * j + l] = static_cast<std::byte>(parts[j].index[l]);
    }
  }
}

}  // namespace

extern const Quant iq3_xxs;
const Quant iq3_xxs = of_codes<Format>({.summary = "3-bit, vectors of 4 out of 256, 8 x 32 with 4-bit scales",
                                        .together = 4,
                                        .fallback = "iq4_nl",
                                        .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
