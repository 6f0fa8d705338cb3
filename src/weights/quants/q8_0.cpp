// Q8_0: blocks of 32, f16 scale d, 32 signed bytes: x = d q. Codes are stored plus 128.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format {
  static constexpr int kBits = 8, kZero = 128, kBlock = 32, kScales = 1, kBlockBytes = 34, kHeadBytes = 32;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int i = 0; i < 32; ++i) u[i] = static_cast<std::uint8_t>(block[2 + i]) ^ 128;
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) { put_half(block, row, head); }
  KVASIR_INLINE void load_head(const std::byte* head, int, F32* d, F32*) { d[0] = get_halves(head); }
};

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 32; ++b, row += 32, out += 34) {
    put_half_value(__builtin_fabsf(extreme(row, 32)) / 127.0f, out);
    std::uint8_t u[32];
    encode(row, 32, half_at(out), 0.0f, 128, 255, u);
    for (int i = 0; i < 32; ++i) out[2 + i] = static_cast<std::byte>(u[i] ^ 128);
  }
}

}  // namespace

extern const Quant q8_0;
const Quant q8_0 = of_codes<Format>({.summary = "8-bit, blocks of 32, f16 scale", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
