// TQ2_0: super-blocks of 256, x = d (u - 1) with u of 2 bits.
//    64 bytes  codes: byte 32h + i (h 0..1, i 0..31) holds elements 128h + i, + 32, + 64, + 96 from low to high bits
//              f16 d
#include "weights/families/int_codes.hpp"
#include "weights/families/ternary.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : Ternary<> {
  static constexpr int kBlockBytes = 66;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int h = 0; h < 2; ++h) bit_pairs(block + 32 * h, u + 128 * h);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block + 64, row, head);
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += Format::kBlockBytes) {
    std::uint8_t u[256];
    quantise_ternary<256>(row, out + 64, u);
    for (int h = 0; h < 2; ++h) put_bit_pairs(u + 128 * h, out + 32 * h);
  }
}

}  // namespace

extern const Quant tq2_0;
const Quant tq2_0 = of_codes<Format>(
    {.summary = "ternary in 2 bits, blocks of 256, f16 scale", .fallback = "q4_0", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
