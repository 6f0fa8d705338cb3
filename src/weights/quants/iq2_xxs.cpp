// IQ2_XXS: super-blocks of 256 in 8 sub-blocks of 32, x = d (2 s + 1) / 8 level, vectors of 8 out of 256.
//              f16 d
//    8 x 8 bytes  of every sub-block the numbers of its 4 vectors, a byte each, and a word of 32 bits: 4 times 7 signs
//                 from the low bits on (the eighth makes the number of negative ones even), s in bits 28-31
#include "weights/families/int_codes.hpp"
#include "weights/families/two_bit_grids.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : TwoBitGrids<1> {
  static constexpr int kBlockBytes = 66;
  static constexpr auto kGrid = grid_of<256, 8, 3>(
      "VVBFVBBRBFEAEQBRAABAAAABABAFAAEAAAAAEAAAQBBQBFBABQBBABFBABAEAAQBQAAAQBAABAAAABAABRBBARBFAAABAAABAAABAAAAAAAA"
      "EABAAAAAAAAAAQBBQABAABABRAABBABAABEABAAAAAAABQAAAAAAAABBARAQAAABAAAAAABAAAAEAAAAABAEAAAAAAAAAAQBBAABAAAQAAAA"
      "RAAAAAAAAAAABAAAAAAQAAAAAAAFEAAABAQAFAAAAAAAQABAAAAAAAFAAAAAAAAAAAAQBBAABAEAAAAAABAAAQAAABAAAAAAAAAAAAAAABAA"
      "ABABAAAAAAABAAAAAAAAAAAAAAAAAAAABAAAAAAAQBBRBBBEBQBBAABAABAAAQARAAAQABAAABEABAAAABBABAAAAABAQAAAEABAAAAAAAAA"
      "BAAAAAAAAAAAAQBBAARAAAAAAAABAAAAAARAEAAAAAAAAQAAAAABAABRQBAAAAABBAAABAAAEAAAAAAABAAAAAAAAAAQAAAAAAAAAAAAAFAA"
      "AEAAAAAAAAAAAQAAAAAABAAAAAABQQAAAAABAAAAAAAAABAAAAAAAAABAAAAAAAAAAAABBAABAAABAAAABAAAAAQAAAAAAAAABAAAABAAAAA"
      "RAAAAAAAAAAAAAAFAAAAAAABAAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAFEAAQAAAAEAAAABABABAAAAAAAA"
      "AQAAAAAAAAAAAQBRAABAABAAAAABAAAAEAAAAABAAQAAABAABAAAAAEAAAAAAAAAAAAABAAAAAAAAAAAAAQAAAAAAAAAAAABBABBAAAAAAQA"
      "AAEAAAAAABAAAAAAAAQAAAAAAAABAAEABAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAABAAAAAAAAAAAAAAAAAAAAAAA"
      "EAAAAABAAQAAAAQAAAAAAAAAAAABAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAAAAABAAAAAAAAAAAA"
      "AAAAAAAAAAAAAA");
  static const Points<256, 8>& points() {
    static const Points<256, 8> all(kGrid, level);
    return all;
  }

  static void codes(const std::byte* block, std::uint8_t* u) {
    for (const std::byte* p = block + 2; p < block + kBlockBytes; p += 8) {
      const std::uint32_t signs = word32(p + 4);
      for (int l = 0; l < 4; ++l, u += 8) put_codes(kGrid.at[byte_at(p + l)], even_signs(signs >> 7 * l & 127), u);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
    for (int j = 0; j < 8; ++j) put_scale(j, word32(block + 2 + 8 * j + 4) >> 28, row, head);
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  TwoBitPart<Format, 32, true> parts[8];
  std::uint8_t s[8];
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    round_to_grid<15>(row, Format::kUnit, out, s, parts);
    for (int j = 0; j < 8; ++j) {
      std::uint32_t word = static_cast<std::uint32_t>(s[j]) << 28;
      for (int l = 0; l < 4; ++l) {
        out[2 + 8 * j + l] = static_cast<std::byte>(parts[j].index[l]);
        word |= (parts[j].sign[l] & 127u) << 7 * l;
      }
      __builtin_memcpy(out + 2 + 8 * j + 4, &word, 4);
    }
  }
}

}  // namespace

extern const Quant iq2_xxs;
const Quant iq2_xxs = of_codes<Format>({.summary = "2-bit, vectors of 8 out of 256, 8 x 32 with 4-bit scales",
                                        .together = 8,
                                        .fallback = "iq4_nl",
                                        .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
