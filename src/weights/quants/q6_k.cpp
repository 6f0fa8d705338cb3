// Q6_K: super-blocks of 256 in 16 sub-blocks of 16, x = (d s) (u - 32) with u of 6 bits.
//   128 bytes  low four bits: byte 64h + i (h 0..1, i 0..63) holds element 128h + i low and element 128h + i + 64 high
//    64 bytes  high two bits: byte 32h + i (i 0..31) holds elements 128h + i, + 32, + 64, + 96 from low to high bits
//    16 bytes  scales s of the sub-blocks, signed
//              f16 d
// Panel head: d (16 f16), s (16 sub-blocks, 16 rows) int8.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/quantise.hpp"
#include "weights/families/signed_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : SignedScales {
  static constexpr int kBits = 6, kZero = 32, kBlock = 256, kScales = 2, kBlockBytes = 210;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) {
    const auto* high = reinterpret_cast<const std::uint8_t*>(block + 128);
    for (int h = 0; h < 2; ++h, u += 128, high += 32) {
      nibbles(block + 64 * h, u, 64);
      for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 32; ++i) u[32 * j + i] |= static_cast<std::uint8_t>((high[i] >> (2 * j) & 3) << 4);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    put_half(block + 208, row, head);
    for (int j = 0; j < 16; ++j) head[32 + 16 * j + row] = block[192 + j];
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += 210) {
    std::uint8_t u[256];
    std::int8_t s[16];
    quantise_signed_scales(row, 32, 127, out + 208, s, u);
    __builtin_memcpy(out + 192, s, 16);
    for (int h = 0; h < 2; ++h) {
      const std::uint8_t* half = u + 128 * h;
      put_nibbles(half, out + 64 * h, 64);
      for (int i = 0; i < 32; ++i)
        out[128 + 32 * h + i] = static_cast<std::byte>(half[i] >> 4 | half[i + 32] >> 4 << 2 | half[i + 64] >> 4 << 4 |
                                                       half[i + 96] >> 4 << 6);
    }
  }
}

}  // namespace

extern const Quant q6_k;
const Quant q6_k =
    of_codes<Format>({.summary = "6-bit, 16 x 16 with 8-bit scales", .fallback = "q8_0", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
