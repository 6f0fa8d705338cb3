// IQ1_S: super-blocks of 256 in 8 sub-blocks of 32, x = d (2 s + 1) (digit - 1 + move), vectors of 8 out of 2048.
//              f16 d
//    32 bytes  the low eight bits of the vectors' numbers
//    16 bytes  of every sub-block a word of 16 bits: the high three bits of its 4 numbers from the low bits on, s in
//              bits 12-14, bit 15 is set if move is -1/8, not 1/8
// Panel head: d (16 f16), nibbles of s and the top bit (families/odd_scales.hpp). There x = dl u + dl (move - 1) with
// dl = d (2 s + 1): the same numbers, but zeros of a panel are positive.
#include "weights/families/int_codes.hpp"
#include "weights/families/iq1_grid.hpp"
#include "weights/families/odd_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : OddScales<1> {
  static constexpr int kBits = 2, kZero = 0, kBlockBytes = 50, kWords = 34;
  static constexpr bool kMin = true;

  static std::uint32_t digits(const std::byte* block, int g) {  // of vector g
    const std::uint32_t high = static_cast<std::uint32_t>(word16(block + kWords + 2 * (g / 4)) >> 3 * (g % 4) & 7);
    return TernaryBook::kGrid.at[byte_at(block + 2 + g) | high << 8];
  }
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int g = 0; g < 32; ++g, u += 8) {
      const std::uint64_t codes = spread_pairs(digits(block, g));
      __builtin_memcpy(u, &codes, 8);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    put_half(block, row, head);
    for (int j = 0; j < 8; ++j) put_scale(j, word16(block + kWords + 2 * j) >> 12, row, head);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int sub, F32* d, F32* m) {
    const F32 once = get_halves(head);
    I32 s[1];
    stored(head, sub, s);
    const F32 down = to_f32(shift_right32<3>(s[0]));
    d[0] = fma(add(once, once), to_f32(and_(s[0], set1_i32(7))), once);
    m[0] = mul(d[0], fma(down, set1(-0.25f), set1(-0.875f)));
  }

  static void dequantise(const std::byte* row, float* out, std::int64_t n) {
    for (std::int64_t b = 0; b < n / 256; ++b, row += kBlockBytes) {
      for (int g = 0; g < 32; ++g) {
        const int word = word16(row + kWords + 2 * (g / 4));
        const float scale = half_at(row) * static_cast<float>(2 * (word >> 12 & 7) + 1);
        const float move = word >> 15 != 0 ? -0.125f : 0.125f;
        for (int i = 0; i < 8; ++i)
          *out++ = scale * (static_cast<float>(static_cast<int>(digits(row, g) >> 2 * i & 3) - 1) + move);
      }
    }
  }
};

// One move for all 32.
struct Part {
  static constexpr int kSize = 32;
  static constexpr float kTargets[] = {7.0f, 9.0f, 11.0f};
  int index[4];
  bool down;
  float level[32];

  void round(const float* x, float inverse) {
    float scaled[32], least = __builtin_inff();
    for (int i = 0; i < 32; ++i) scaled[i] = x[i] * inverse;
    for (const float by : {1.0f, -1.0f}) {
      int n[4];
      float off = 0.0f;
      for (int g = 0; g < 4; ++g) off += nearest_moved(scaled + 8 * g, by, n[g]);
      if (!(off < least)) continue;
      least = off;
      down = by < 0.0f;
      for (int g = 0; g < 4; ++g) index[g] = n[g];
    }
    if (!(least < __builtin_inff())) {  // x is no number
      down = false;
      for (int& n : index) n = 0;
    }
    for (int i = 0; i < 32; ++i)
      level[i] = TernaryBook::level(TernaryBook::kGrid.digit(index[i / 8], i % 8)) + (down ? -1.0f : 1.0f);
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  Part parts[8];
  std::uint8_t s[8];
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    round_to_grid<7>(row, 0.125f, out, s, parts);
    for (int j = 0; j < 8; ++j) {
      int word = s[j] << 12 | (parts[j].down ? 1 << 15 : 0);
      for (int l = 0; l < 4; ++l) {
        out[2 + 4 * j + l] = static_cast<std::byte>(parts[j].index[l]);
        word |= parts[j].index[l] >> 8 << 3 * l;
      }
      const auto stored = static_cast<std::uint16_t>(word);
      __builtin_memcpy(out + Format::kWords + 2 * j, &stored, 2);
    }
  }
}

}  // namespace

extern const Quant iq1_s;
const Quant iq1_s = of_codes<Format>({.summary = "1.5-bit, vectors of 8 out of 2048, 8 x 32 with 3-bit scales",
                                      .together = 8,
                                      .fallback = "iq4_nl",
                                      .dequantise = Format::dequantise,
                                      .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
