// Q4_0: blocks of 32, f16 scale d, 16 bytes of nibbles (element i low in byte i, element i+16 high): x = d (u - 8).
#include "kernel/int_panels.hpp"
#include "weights/quant.hpp"
#include "weights/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format {
  static constexpr int kBits = 4, kZero = 8, kBlock = 32, kScales = 1, kBlockBytes = 18, kHeadBytes = 32;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) { nibbles(block + 2, u, 16); }
  static void pack_head(const std::byte* block, int row, std::byte* head) { put_half(block, row, head); }
  KVASIR_INLINE void load_head(const std::byte* head, int, F32* d, F32*) { d[0] = get_halves(head); }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 32; ++b, row += 32, out += 18) {
    // The extreme value maps to -8, the only code without a mirror image.
    const float d = extreme(row, 32) / -8.0f;
    put_half_value(d, out);
    std::uint8_t u[32];
    encode(row, 32, half_at(out), 0.0f, 8, 15, u);
    put_nibbles(u, out + 2, 16);
  }
}

}  // namespace

static constexpr kernel::PanelFormat kPanel = IntPanels<Format>::format();
extern const Quant q4_0;
const Quant q4_0 = {"4-bit, blocks of 32, f16 scale", 2, 2, 32, 18, IntPanels<Format>::dequantise, quantise, &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
