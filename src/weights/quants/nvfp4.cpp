// NVFP4: blocks of 64 in 4 sub-blocks of 16, x = d v with v a float of 4 bits (E2M1) and d one of 7 bits without a sign
// (E4M3, bias 7); twice v is in the table of levels, so half of d is multiplied.
//     4 bytes  d of the sub-blocks in bits 0-6. 127 is no number there and stands for 0
//    32 bytes  nibbles: of every sub-block 8 bytes, element i low in byte i, element i + 8 high
// Files made from checkpoints have one more number for a whole matrix, in a tensor of its own: a panel's factor.
// Panel head: d (4 sub-blocks, 16 rows), a byte each.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/levels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : FourBitFloat {
  static constexpr int kBits = 4, kBlock = 64, kScales = 2, kBlockBytes = 36, kHeadBytes = 64;
  static constexpr bool kMin = false, kFactor = true;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int j = 0; j < 4; ++j) nibbles(block + 4 + 8 * j, u + 16 * j, 8);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    for (int j = 0; j < 4; ++j)
      head[16 * j + row] = block[j] == std::byte{127} ? std::byte{0} : block[j] & std::byte{127};
  }
  // Exponent and mantissa in the places of a float's give x = 2^(e - 8) (1 + m / 8), the half of d that is wanted, but
  // for e = 0, where that is 2^-7 m / 8 = 2 x - 2^-7; elsewhere this is no less than x.
  KVASIR_INLINE void load_head(const std::byte* head, int sub, F32* d, F32*) {
    KVASIR_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const I32 e4m3 = load_u8(reinterpret_cast<const std::uint8_t*>(head + 32 * sub + 16 * i));
      const F32 x = bits_to_f32(add(shift_left32<20>(e4m3), set1_i32((127 - 8) << 23)));
      d[i] = min(x, fma(x, set1(2.0f), set1(-0x1p-7f)));
    }
  }
};

// d and the code nearest to one; at most 448, code 126. Below 2^-6 steps are 2^-9.
float value_of(int code) {
  const auto m = static_cast<float>(code & 7);
  return code < 8 ? __builtin_ldexpf(m, -9) : __builtin_ldexpf(8.0f + m, (code >> 3) - 10);
}
int nearest_code(float d) {
  if (!(d < 448.0f)) return 126;
  const int e = d < 0x1p-6f ? -6 : __builtin_ilogbf(d);
  return 8 * (e + 6) + static_cast<int>(__builtin_nearbyintf(__builtin_ldexpf(d, 3 - e)));
}

// The largest size of a sub-block becomes 6, the largest number, or a little less or more.
void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 64; ++b, out += Format::kBlockBytes) {
    for (int j = 0; j < 4; ++j, row += 16) {
      const int code = nearest_code(__builtin_fabsf(extreme(row, 16)) / 6.0f);
      out[j] = static_cast<std::byte>(code);
      std::uint8_t u[16];
      encode_levels(row, 16, 0.5f * value_of(code), Format::kLevels, u);
      put_nibbles(u, out + 4 + 8 * j, 8);
    }
  }
}

}  // namespace

extern const Quant nvfp4;
const Quant nvfp4 = of_codes<Format>(
    {.summary = "4-bit floats, 4 x 16 with floats of 7 bits", .fallback = "mxfp4", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
