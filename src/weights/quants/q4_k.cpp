// Q4_K: super-blocks of 256 in 8 sub-blocks of 32. f16 d, f16 dmin, 12 bytes of 6-bit scales s and minima t, 128 bytes
// of nibbles (64 elements per 32 bytes: the low nibbles are the first 32): x = (d s) u - (dmin t).
#include "kernel/int_panels.hpp"
#include "weights/k_scales.hpp"
#include "weights/quant.hpp"
#include "weights/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : KScales {
  static constexpr int kBits = 4, kZero = 0, kBlock = 256, kScales = 1, kBlockBytes = 144;
  static constexpr bool kMin = true;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int i = 0; i < 4; ++i) nibbles(block + 16 + 32 * i, u + 64 * i, 32);
  }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += 144) {
    std::uint8_t u[256];
    quantise_k_scales(row, 15, out, u);
    for (int i = 0; i < 4; ++i) put_nibbles(u + 64 * i, out + 16 + 32 * i, 32);
  }
}

}  // namespace

static constexpr kernel::PanelFormat kPanel = IntPanels<Format>::format();
extern const Quant q4_k;
const Quant q4_k = {
    "4-bit, 8 x 32 with 6-bit scales and minima", 12, 15, 256, 144, IntPanels<Format>::dequantise, quantise, &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
