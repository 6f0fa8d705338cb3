// MXFP4 (OCP Microscaling Formats 1.0): blocks of 32 elements, e (a power of two, E8M0) and 16 bytes of nibbles
// (element i low in byte i, element i + 16 high) that are floats E2M1: x = 2^(e - 128) level[u], the levels being twice
// E2M1. Panel head: e of 16 rows.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/levels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : FourBitFloat {
  static constexpr int kBits = 4, kZero = 0, kBlock = 32, kScales = 1, kBlockBytes = 17, kHeadBytes = 16;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) { nibbles(block + 1, u, 16); }
  static void pack_head(const std::byte* block, int row, std::byte* head) { head[row] = block[0]; }
  // As bits of a float e << 23 is x = 2^(e - 127), but 0 for e = 0, which stands for 2^-127, and infinite for e = 255,
  // which is no number: 0 x makes it NaN, and max passes NaN on from its second operand.
  KVASIR_INLINE void load_head(const std::byte* head, int, F32* d, F32*) {
    const F32 x = bits_to_f32(shift_left32<23>(load_u8(reinterpret_cast<const std::uint8_t*>(head))));
    d[0] = max(set1(0x1p-128f), fma(x, zero(), mul(x, set1(0.5f))));
  }
};

// The largest value gets the highest exponent of E2M1, 2: it lies in [4, 8) times the scale. From 7 on it is nearer to
// 8, which the next scale has, than to 6.
void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 32; ++b, row += 32, out += 17) {
    const float most = __builtin_fabsf(extreme(row, 32));
    int e = 0;
    if (most > 0.0f) {
      const int power = __builtin_ilogbf(most);
      e = power - 2 + 127 + (__builtin_ldexpf(most, -power) >= 1.75f ? 1 : 0);
    }
    e = e < 0 ? 0 : e > 254 ? 254 : e;
    out[0] = static_cast<std::byte>(e);
    std::uint8_t u[32];
    encode_levels(row, 32, __builtin_ldexpf(1.0f, e - 128), Format::kLevels, u);
    put_nibbles(u, out + 1, 16);
  }
}

}  // namespace

extern const Quant mxfp4;
const Quant mxfp4 =
    of_codes<Format>({.summary = "4-bit floats, blocks of 32 with a power of two", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
