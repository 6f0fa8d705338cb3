// Q3_K: super-blocks of 256 in 16 sub-blocks of 16, x = d (s - 32) (u - 4) with u of 3 bits and s of 6.
//    32 bytes  third bits: bit j of byte i belongs to element 32j + i
//    64 bytes  low two bits: byte 32h + i (h 0..1, i 0..31) holds elements 128h + i, + 32, + 64, + 96, low to high
//    12 bytes  scales: the low four bits of s[j] are in byte j % 8 (low nibble for j < 8, else high), the high two in
//              byte 8 + j % 4 at bit 2 (j / 4)
//              f16 d
// Panel head: d (16 f16), s - 32 (16 sub-blocks, 16 rows) int8.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/quantise.hpp"
#include "weights/families/signed_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : SignedScales {
  static constexpr int kBits = 3, kZero = 4, kBlock = 256, kScales = 2, kBlockBytes = 110;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int h = 0; h < 2; ++h) bit_pairs(block + 32 + 32 * h, u + 128 * h);
    add_bit_planes(block, 2, u);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    put_half(block + 108, row, head);
    const auto* p = reinterpret_cast<const std::uint8_t*>(block + 96);
    for (int j = 0; j < 16; ++j) {
      const int s = (p[j % 8] >> (j / 8 * 4) & 15) | (p[8 + j % 4] >> (j / 4 * 2) & 3) << 4;
      head[32 + 16 * j + row] = static_cast<std::byte>(s - 32);
    }
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += 110) {
    std::uint8_t u[256];
    std::int8_t s[16];
    quantise_signed_scales(row, 4, 31, out + 108, s, u);
    put_bit_planes(u, 2, out);
    for (int h = 0; h < 2; ++h) put_bit_pairs(u + 128 * h, out + 32 + 32 * h);
    auto* p = reinterpret_cast<std::uint8_t*>(out + 96);
    for (int j = 0; j < 12; ++j) p[j] = 0;
    for (int j = 0; j < 16; ++j) {
      const int stored = s[j] + 32;
      p[j % 8] |= static_cast<std::uint8_t>((stored & 15) << (j / 8 * 4));
      p[8 + j % 4] |= static_cast<std::uint8_t>((stored >> 4) << (j / 4 * 2));
    }
  }
}

}  // namespace

extern const Quant q3_k;
const Quant q3_k =
    of_codes<Format>({.summary = "3-bit, 16 x 16 with 6-bit scales", .fallback = "q4_0", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
