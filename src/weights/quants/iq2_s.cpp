// IQ2_S: super-blocks of 256 in 16 sub-blocks of 16, x = d (2 s + 1) / 8 level, vectors of 8 out of 1024.
//              f16 d
//    32 bytes  the low eight bits of the vectors' numbers
//    32 bytes  signs: bit i of byte g is set if element 8g + i is negative
//     8 bytes  the high two bits of number g in byte g / 4, from bit 2 (g % 4) on
//     8 bytes  scales: s of sub-block j in byte j / 2, low nibble for even j
#include "weights/families/int_codes.hpp"
#include "weights/families/two_bit_grids.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : TwoBitGrids<2> {
  static constexpr int kBlockBytes = 82, kSigns = 34, kHigh = 66, kFours = 74;
  static constexpr auto kGrid = grid_of<1024, 8, 3>(
      "VVVVRVVRVVRBRUVVRBVRVRRBVQBVRBBUVRAAREBEQVVRVVVVVQVRRBVVVRRVVRBVRBBQVRAARRBBQBBAAVRVRUVVRBRABAUBVRARRBBQABAA"
      "BQBEFABAAAAQAQVVRFVRVVRFRRBVVVVRVVRBVRBAQRRQBRQBAQBBAAVRVRRVVRBVRBBQVVRBVRBBQBBAARRBBQBBAABAAAUVRRAVRBBQBAAA"
      "VRBBQBBAQAAAEABBAABAEAAAAAAVRVRUBVABBEBAUBVQAVQBBQBBAABEAEFBBAAAFAARVRRBVRBBQBBAARRBBQBBAEBAAAQBBAABAQAAAAAA"
      "RQBAQBBAAAEAAUBBAAAAAAAAQAAAEAEAAAABAFAAQVVVFVVVVQBRRBVRVVQVVRBVRBBQBVBBRRBBQBAAAVVVVRVVRBVRBBQVVRBVRBBUBBAA"
      "VRBBQBBAABAAQQRVRBVRBBABBAAVRBBQBBAABAEAQBBAABAAAAAAAAVRVVRVVRBVRBAQVVRBVRBBQBBAARRBBQBBAQBAAAQVVRBVRBBQBBAA"
      "VRBBQBBAABAAAQBBAEBAAAAAAAAVRBBQBBEABAAAQBBAABAAAAAAAABAQAAAAAAQAAARFVRBRRBBABBAAVRBBQBBAABAQAABBAABAEAAAAQA"
      "RRBBQBBAABAAAQBBAABEAABAEAABAAAAAAAAAABAQBBAAAAAQAAABABAAAEAAAAAAAAAAAAAEAAAAAAQAVRRRQBVRARQBAQRVRBVRBAQBBAQ"
      "RUBAQBBAAAAAAQVVRAVRBBQBBAAVRBBQBBAABEAAQBBAQBAAAAAAAARQBAQBBAAAAAEQBAAABAAQAAAAAAAAEAAAFAEAAEQRVBBVRBBQBBAA"
      "RQBAQBBEAAAAAQBBAABAAAAAAAEVRBBQBBAABAEAQBBAABAAAAAARABAAAAEAABAAAAQBBAEBAAAAAAAQBAAAAQEAAAAAAAAAAAAAAAAABAA"
      "REBEUBBAAAAAEEAAAABAAQAAAAAEEAEFAAAAEFAARBBAABAAAAQAABBAQAAAAAAAAAAAAAAAAQAAAAAAAAEAABAAAAAAAEAAAAAAABAAEAAA"
      "AFAFBAAAAABAAE");
  static const Points<1024, 8>& points() {
    static const Points<1024, 8> all(kGrid, level);
    return all;
  }

  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int g = 0; g < 32; ++g, u += 8) {
      const std::uint32_t high = byte_at(block + kHigh + g / 4) >> g % 4 * 2 & 3;
      put_codes(kGrid.at[byte_at(block + 2 + g) | high << 8], byte_at(block + kSigns + g), u);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
    for (int j = 0; j < 16; ++j) put_scale(j, byte_at(block + kFours + j / 2) >> j % 2 * 4 & 15, row, head);
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  TwoBitPart<Format, 16, false> parts[16];
  std::uint8_t s[16];
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    round_to_grid<15>(row, Format::kUnit, out, s, parts);
    for (int i = 0; i < 8; ++i) {
      out[Format::kHigh + i] = std::byte{0};
      out[Format::kFours + i] = static_cast<std::byte>(s[2 * i] | s[2 * i + 1] << 4);
    }
    for (int g = 0; g < 32; ++g) {
      const int index = parts[g / 2].index[g % 2];
      out[2 + g] = static_cast<std::byte>(index);
      out[Format::kSigns + g] = static_cast<std::byte>(parts[g / 2].sign[g % 2]);
      out[Format::kHigh + g / 4] |= static_cast<std::byte>(index >> 8 << g % 4 * 2);
    }
  }
}

}  // namespace

extern const Quant iq2_s;
const Quant iq2_s = of_codes<Format>({.summary = "2-bit, vectors of 8 out of 1024, 16 x 16 with 4-bit scales",
                                      .together = 8,
                                      .fallback = "iq4_nl",
                                      .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
