// IQ1_M: super-blocks of 256 in 16 sub-blocks of 16, x = d (2 s + 1) (digit - 1 + move), vectors of 8 out of 2048.
//    32 bytes  the low eight bits of the vectors' numbers
//    16 bytes  nibbles, those of even vectors low: the high three bits of the number, bit 3 is set if move is -1/8,
//              not 1/8
//     8 bytes  four words of 16 bits, each four times 3 bits s from the low bits on and 4 bits of the f16 d, the low
//              ones in the first word
// In panels every element has a code of 3 bits: the digit, and the move in bit 2.
#include "weights/families/int_codes.hpp"
#include "weights/families/iq1_grid.hpp"
#include "weights/families/odd_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : OddScales<2> {
  static constexpr int kBits = 3, kBlockBytes = 56, kHigh = 32, kWords = 48;
  static constexpr bool kMin = false;
  static constexpr std::int8_t kLevels[16] = {-7, 1, 9, 0, -9, -1, 7};  // eighths

  static std::uint32_t high(const std::byte* block, int g) { return byte_at(block + kHigh + g / 2) >> g % 2 * 4 & 15; }
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int g = 0; g < 32; ++g, u += 8) {
      const std::uint32_t h = high(block, g);
      const std::uint64_t codes = spread_pairs(TernaryBook::kGrid.at[byte_at(block + g) | (h & 7) << 8]) |
                                  (h >> 3) * std::uint64_t{0x0404040404040404};
      __builtin_memcpy(u, &codes, 8);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    std::uint16_t d = 0;
    for (int i = 0; i < 4; ++i) d |= static_cast<std::uint16_t>(word16(block + kWords + 2 * i) >> 12 << 4 * i);
    __builtin_memcpy(head + 2 * row, &d, 2);
    for (int j = 0; j < 16; ++j)
      put_scale(j, static_cast<std::uint32_t>(word16(block + kWords + 2 * (j / 4)) >> 3 * (j % 4) & 7), row, head);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int sub, F32* d, F32*) { load_scales(head, sub, 0.125f, d); }
};

// A move for every 8.
struct Part {
  static constexpr int kSize = 16;
  static constexpr float kTargets[] = {7.0f, 9.0f, 11.0f};
  int index[2];
  bool down[2];
  float level[16];

  void round(const float* x, float inverse) {
    for (int g = 0; g < 2; ++g, x += 8) {
      float scaled[8];
      for (int i = 0; i < 8; ++i) scaled[i] = x[i] * inverse;
      int up;
      const float off = nearest_moved(scaled, 1.0f, up);
      down[g] = nearest_moved(scaled, -1.0f, index[g]) < off;
      if (!down[g]) index[g] = up;
      for (int i = 0; i < 8; ++i)
        level[8 * g + i] = TernaryBook::level(TernaryBook::kGrid.digit(index[g], i)) + (down[g] ? -1.0f : 1.0f);
    }
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  Part parts[16];
  std::uint8_t s[16];
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    std::byte d_bytes[2];
    round_to_grid<7>(row, 0.125f, d_bytes, s, parts);
    const int d = word16(d_bytes);
    for (int i = 0; i < 4; ++i) {
      int word = (d >> 4 * i & 15) << 12;
      for (int j = 0; j < 4; ++j) word |= s[4 * i + j] << 3 * j;
      const auto stored = static_cast<std::uint16_t>(word);
      __builtin_memcpy(out + Format::kWords + 2 * i, &stored, 2);
    }
    for (int j = 0; j < 16; ++j) {
      int nibbles = 0;
      for (int l = 0; l < 2; ++l) {
        out[2 * j + l] = static_cast<std::byte>(parts[j].index[l]);
        nibbles |= (parts[j].index[l] >> 8 | (parts[j].down[l] ? 8 : 0)) << 4 * l;
      }
      out[Format::kHigh + j] = static_cast<std::byte>(nibbles);
    }
  }
}

}  // namespace

extern const Quant iq1_m;
const Quant iq1_m = of_codes<Format>({.summary = "1.75-bit, vectors of 8 out of 2048, 16 x 16 with 3-bit scales",
                                      .together = 8,
                                      .fallback = "iq4_nl",
                                      .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
