// Q5_0: blocks of 32, f16 scale d, 4 bytes with the fifth bits (bit i of the little-endian word belongs to element i),
// 16 bytes of nibbles (element i low in byte i, element i+16 high): x = d (u - 16).
#include "kernel/int_panels.hpp"
#include "weights/quant.hpp"
#include "weights/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format {
  static constexpr int kBits = 5, kZero = 16, kBlock = 32, kScales = 1, kBlockBytes = 22, kHeadBytes = 32;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) {
    nibbles(block + 6, u, 16);
    add_fifth_bits(block + 2, u);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) { put_half(block, row, head); }
  KVASIR_INLINE void load_head(const std::byte* head, int, F32* d, F32*) { d[0] = get_halves(head); }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 32; ++b, row += 32, out += 22) {
    // The extreme value maps to -16, the only code without a mirror image.
    put_half_value(extreme(row, 32) / -16.0f, out);
    std::uint8_t u[32];
    encode(row, 32, half_at(out), 0.0f, 16, 31, u);
    put_fifth_bits(u, out + 2);
    put_nibbles(u, out + 6, 16);
  }
}

}  // namespace

static constexpr kernel::PanelFormat kPanel = IntPanels<Format>::format();
extern const Quant q5_0;
const Quant q5_0 = {"5-bit, blocks of 32, f16 scale", 6, 8, 32, 22, IntPanels<Format>::dequantise, quantise, &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
