// IQ3_S: super-blocks of 256 in 8 sub-blocks of 32, x = d (2 s + 1) level, vectors of 4 odd levels out of 512.
//              f16 d
//    64 bytes  the low eight bits of the vectors' numbers
//     8 bytes  their ninth bits: that of number i in byte i / 8, bit i % 8
//    32 bytes  signs: bit i of byte g is set if element 8g + i is negative
//     4 bytes  scales: s of sub-block j in byte j / 2, low nibble for even j
// Levels are the odd numbers from -15 to 15: in panels codes u of 4 bits, x = 2 d (2 s + 1) (u - 8) + d (2 s + 1).
#include "weights/families/grid_search.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/odd_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : OddScales<1> {
  static constexpr int kBits = 4, kZero = 8, kBlockBytes = 110, kNinths = 66, kSigns = 74, kFours = 106;
  static constexpr bool kMin = true;
  static constexpr auto kGrid = grid_of<512, 4, 8>(
      "ne1IIUqCFI5FjkoIQAgIEMaSiEBpKAQCIISBKBRBAKSAIKBBJIAABQBAFhgoAAECApAACAABAIQFAUECAEBAAcxqFIFAQJABLFhAJIQBAEUA"
      "kGBBJASAEIZCCGhAAQQAoQBAKQUEAAgAJIQBAIAAAAAARCAUAAAAKUgAgIAAEEwqVpYBqUAgpUQikIBBCAAASCgCBKAiAIRJCQhCEEAQAIIA"
      "JQiAAAAJQIABAGACAEQhAIAAAAiAAAiAAFACBAAAEoKBqQpAIIgKQoAABAQAEFABBQBABAAACEhiBoIIAgACCRgAAQQEAIQBgQAEABACAAEA"
      "AIAAAAgCAUAIAAAAAEBBRSgABAQAEqABhggIAAgChIACBAIBBAhCFICAAAAAFAAEAGAAAIAoAIAAAAABAAACAABAAEAAAECABggAAAABRQAA"
      "RSAQQoCBCQAAAAABBIACBBACAAAhBAIAQIAIIIBABQAQAAAAAQAQAAgCAAAAAAAAEAAAAQBAEAAAAAAAAoCAKAAABAQAAEIAAAAEAAABAABB"
      "gQQABAhAAEAAAAAAAACAIAABAkAAAABAAEAAgAAAAEAAAAAAKAAAAAAAAEJAFAUAQQAAEIAEAgCAAAgEBJQAAIAAAQAAAQCAIAAAigQAAAQA"
      "AAAAAQAAEAAAAQAAAIAAAAAABAAAAAAAAAA");
  static float level(int digit) { return static_cast<float>(2 * digit + 1); }
  static const Points<512, 4>& points() {
    static const Points<512, 4> all(kGrid, level);
    return all;
  }

  static std::uint64_t digits(const std::byte* block, int i) {  // of vector i, a byte each
    return spread_nibbles(kGrid.at[byte_at(block + 2 + i) | (byte_at(block + kNinths + i / 8) >> i % 8 & 1) << 8]);
  }
  // u = 8 + digit, or 7 - digit = 15 - (8 + digit) where it is negative.
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int g = 0; g < 32; ++g, u += 8) {
      const std::uint64_t both = digits(block, 2 * g) | digits(block, 2 * g + 1) << 32;
      const std::uint64_t codes = (both | 0x0808080808080808) ^ spread_bits(byte_at(block + kSigns + g)) * 15;
      __builtin_memcpy(u, &codes, 8);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    put_half(block, row, head);
    for (int j = 0; j < 8; ++j) put_scale(j, byte_at(block + kFours + j / 2) >> j % 2 * 4 & 15, row, head);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int sub, F32* d, F32* m) {
    load_scales(head, sub, 1.0f, m);
    d[0] = add(m[0], m[0]);
  }
  static float weight(float, float m, int code) { return m * static_cast<float>(2 * code - 15); }
};

struct Part : SignedPart<Format, 32, false> {
  static constexpr float kTargets[] = {12.0f, 13.5f, 15.0f, 16.5f, 1.0f};
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  Part parts[8];
  std::uint8_t s[8];
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    round_to_grid<15>(row, 1.0f, out, s, parts);
    for (int j = 0; j < 8; ++j) {
      int ninths = 0;
      for (int l = 0; l < 8; ++l) {
        out[2 + 8 * j + l] = static_cast<std::byte>(parts[j].index[l]);
        ninths |= parts[j].index[l] >> 8 << l;
      }
      out[Format::kNinths + j] = static_cast<std::byte>(ninths);
      for (int l = 0; l < 4; ++l) out[Format::kSigns + 4 * j + l] = static_cast<std::byte>(parts[j].sign[l]);
    }
    for (int i = 0; i < 4; ++i) out[Format::kFours + i] = static_cast<std::byte>(s[2 * i] | s[2 * i + 1] << 4);
  }
}

}  // namespace

extern const Quant iq3_s;
const Quant iq3_s = of_codes<Format>({.summary = "3-bit, vectors of 4 out of 512, 8 x 32 with 4-bit scales",
                                      .together = 4,
                                      .fallback = "iq4_nl",
                                      .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
