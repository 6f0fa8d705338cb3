// IQ4_NL: x = d level[u], blocks of 32 laid out as those of Q4_0 (18 bytes).
#include "weights/families/int_codes.hpp"
#include "weights/families/levels.hpp"
#include "weights/families/nibble_blocks.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format : NibbleBlocks<4, false>, NonLinear {
  // The extreme value maps to the first level, the largest.
  static void quantise(const float* row, std::byte* out, std::int64_t n) {
    for (std::int64_t b = 0; b < n / kBlock; ++b, row += kBlock, out += kBlockBytes) {
      kernel::KVASIR_TARGET::put_half_value(extreme(row, kBlock) / static_cast<float>(kLevels[0]), out);
      std::uint8_t u[kBlock];
      encode_levels(row, kBlock, kernel::KVASIR_TARGET::half_at(out), kLevels, u);
      put_codes(u, out);
    }
  }
};

}  // namespace

extern const Quant iq4_nl;
const Quant iq4_nl =
    of_codes<Format>({.summary = "4-bit, blocks of 32, 16 levels, f16 scale", .quantise = Format::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
