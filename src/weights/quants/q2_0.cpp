// Q2_0: blocks of 64, f16 d, 16 bytes of codes u of 2 bits, four to a byte from the low bits on: x = d (u - 1).
#include "weights/families/int_codes.hpp"
#include "weights/families/ternary.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct PairsFormat : Ternary<64> {
  static constexpr int kBlockBytes = 18;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int i = 0; i < 64; ++i)
      u[i] = static_cast<std::uint8_t>(static_cast<int>(block[2 + i / 4]) >> (2 * (i % 4)) & 3);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
  }
};

void quantise_pairs(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 64; ++b, row += 64, out += PairsFormat::kBlockBytes) {
    std::uint8_t u[64];
    quantise_ternary<64>(row, out, u);
    for (int i = 0; i < 16; ++i)
      out[2 + i] = static_cast<std::byte>(u[4 * i] | u[4 * i + 1] << 2 | u[4 * i + 2] << 4 | u[4 * i + 3] << 6);
  }
}

}  // namespace

extern const Quant q2_0;
const Quant q2_0 = of_codes<PairsFormat>(
    {.summary = "2 bits (-1 to 2), blocks of 64, f16 scale", .fallback = "q4_0", .quantise = quantise_pairs});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
