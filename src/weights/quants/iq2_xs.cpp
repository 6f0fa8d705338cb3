// IQ2_XS: super-blocks of 256 in 16 sub-blocks of 16, x = d (2 s + 1) / 8 level, vectors of 8 out of 512.
//              f16 d
//    64 bytes  of every 8 elements a word of 16 bits: the number of the vector in 9 bits, 7 signs (the eighth makes the
//              number of negative ones even)
//     8 bytes  scales: s of sub-block j in byte j / 2, low nibble for even j
#include "weights/families/int_codes.hpp"
#include "weights/families/two_bit_grids.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : TwoBitGrids<2> {
  static constexpr int kBlockBytes = 74;
  static constexpr auto kGrid = grid_of<512, 8, 3>(
      "VVVVRVVRBVRRBQVVVBVRBBRBBAAVRBBQBRAABEAAQVVRBVRFBQBBAAVRBBQBBQABAAAQBBAEFAAAABAAAVVBRQBBBABAABUBBAABAAAQQAAA"
      "BAABBAAAAAAEBQVVRBVRBBUBBAAVRBBQBBAABAFAQFBAABAABAAAAAVRBBQRBABBAAAQBBAABAAAAAAAABABAAQAAAAAAAQBFAABABAAEAAA"
      "RAAAAAAAEAAAAAAAAAAQAAAAAAQVVBBQBBAABAABQBBAABBAQAAAAABAAEAAAAABAAARBBAQBAAAAAAAABAAAQAEAAAAQAQAAEAAAAAAAAAE"
      "BFABAAQAAABAEAAAAAAAAABABAAABABAAAAAEFAAQVVRBVVBRQBBAAVRBBQBBAARAAEQBFAQBAAAAAAAAVRRBQBBAABABAQBBABBAAAAAAEA"
      "BEAAABBAAAAAAQBBAARABEAAAAABQAAABBAQAAAAABAAAAAAAAAAAAVRBBRBBAABAAAQBRAAFAAAAAAAABAAAABAAAAAAAUBBQABAABQAAQA"
      "BBAAAAAAABBAAAAAQAAAAABAAQABABAQABAAAAQAAAAEAFAAAAAAAAAAAAAAAAAQAAAQBBAABABEAEAAQBAAAAAAAAAAAAAAAABAEAAAAEAA"
      "BAEAAAAAAAAAAAABAARAAAAAAABAAAAAAAAAAAAAQAAAAAAAAEAAAAAAAQAAAAAAAAAAEAAAAABEAAAAAVRBBUBBAAFAAAVFBAABQQAAAAAA"
      "BAABAAAAAFAABRBVAABAABAQAAABAAAABAAAAAAQAAABAAAAAEAAAABBAQAAAEAFAAABEAAAAAAAAAAAAAAAEAAAAABBEARBBAABAEAABAAA"
      "BAAEAAAABAAAAAAAAAAAEAAQAAARAAAABBBAAAAAAAAAQAAAAAAFAAAAAAQAAAAAAAAAAAAAAQAAAAAAEAAAAAQAAAAAAAAAQAAAAABAAAAA"
      "FFABEAAAAAAABAAAAAAQQAAAAAEFBAAEAAAABAABAAAAABAAAAAQAAAAAAAAAAAAAAAAAAAAAAAQAAABAAEAFBAAAAAAABBBAAAAAAAAFAAA"
      "AAAAFAAAAAQAAE");
  static const Points<512, 8>& points() {
    static const Points<512, 8> all(kGrid, level);
    return all;
  }

  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int g = 0; g < 32; ++g, u += 8) {
      const std::uint32_t word = word16(block + 2 + 2 * g);
      put_codes(kGrid.at[word & 511], even_signs(word >> 9), u);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
    for (int j = 0; j < 16; ++j) put_scale(j, byte_at(block + 66 + j / 2) >> j % 2 * 4 & 15, row, head);
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  TwoBitPart<Format, 16, true> parts[16];
  std::uint8_t s[16];
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    round_to_grid<15>(row, Format::kUnit, out, s, parts);
    for (int g = 0; g < 32; ++g) {
      const auto word = static_cast<std::uint16_t>(parts[g / 2].index[g % 2] | (parts[g / 2].sign[g % 2] & 127) << 9);
      __builtin_memcpy(out + 2 + 2 * g, &word, 2);
    }
    for (int i = 0; i < 8; ++i) out[66 + i] = static_cast<std::byte>(s[2 * i] | s[2 * i + 1] << 4);
  }
}

}  // namespace

extern const Quant iq2_xs;
const Quant iq2_xs = of_codes<Format>({.summary = "2-bit, vectors of 8 out of 512, 16 x 16 with 4-bit scales",
                                       .together = 8,
                                       .fallback = "iq4_nl",
                                       .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
