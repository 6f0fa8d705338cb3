// Q5_1: blocks of 32, f16 scale d, f16 minimum m, 4 bytes with the fifth bits (bit i of the little-endian word belongs
// to element i), 16 bytes of nibbles (element i low in byte i, element i+16 high): x = d u + m.
#include "kernel/int_panels.hpp"
#include "weights/quant.hpp"
#include "weights/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format {
  static constexpr int kBits = 5, kZero = 0, kBlock = 32, kScales = 1, kBlockBytes = 24, kHeadBytes = 64;
  static constexpr bool kMin = true;
  static void codes(const std::byte* block, std::uint8_t* u) {
    nibbles(block + 8, u, 16);
    add_fifth_bits(block + 4, u);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    put_half(block, row, head);
    put_half(block + 2, row, head + 32);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int, F32* d, F32* m) {
    d[0] = get_halves(head);
    m[0] = get_halves(head + 32);
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 32; ++b, row += 32, out += 24) {
    std::uint8_t u[32];
    quantise_range(row, 32, 31, out, u);
    put_fifth_bits(u, out + 4);
    put_nibbles(u, out + 8, 16);
  }
}

}  // namespace

static constexpr kernel::PanelFormat kPanel = IntPanels<Format>::format();
extern const Quant q5_1;
const Quant q5_1 = {
    "5-bit, blocks of 32, f16 scale and minimum", 7, 9, 32, 24, IntPanels<Format>::dequantise, quantise, &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
