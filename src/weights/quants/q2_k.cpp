// Q2_K: super-blocks of 256 in 16 sub-blocks of 16, x = (d s) u - (dmin t) with u of 2 bits.
//    16 bytes  sub-block j: scale s in the low and minimum t in the high nibble of byte j
//    64 bytes  codes: byte 32h + i (h 0..1, i 0..31) holds elements 128h + i, + 32, + 64, + 96 from low to high bits
//              f16 d, f16 dmin
// Panel head: d (16 f16), dmin (16 f16), the bytes of scale and minimum (16 sub-blocks, 16 rows).
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format {
  static constexpr int kBits = 2, kZero = 0, kBlock = 256, kScales = 2, kBlockBytes = 84, kHeadBytes = 64 + 256;
  static constexpr bool kMin = true;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int h = 0; h < 2; ++h) bit_pairs(block + 16 + 32 * h, u + 128 * h);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    put_half(block + 80, row, head);
    put_half(block + 82, row, head + 32);
    for (int j = 0; j < 16; ++j) head[64 + 16 * j + row] = block[j];
  }
  KVASIR_INLINE void load_head(const std::byte* head, int sub_block, F32* d, F32* m) {
    const F32 scale = get_halves(head);
    const F32 minimum = get_halves(head + 32);
    for (int i = 0; i < 2; ++i) {
      const F32 both = to_f32(load_u8(reinterpret_cast<const std::uint8_t*>(head + 64 + 16 * (2 * sub_block + i))));
      // both = 16 t + s with s in 0..15: (both - 7.5) / 16 lies within 7.5 / 16 of t. Adding 0 turns -0 into +0.
      const F32 t = add(round(mul(sub(both, set1(7.5f)), set1(0.0625f))), zero());
      d[i] = mul(scale, fma(t, set1(-16.0f), both));
      // -0 - x, not 0 - x: a zero minimum must change sign too (families/k_scales.hpp).
      m[i] = sub(set1(-0.0f), mul(minimum, t));
    }
  }
};

// Range of each sub-block, the minimum at most 0 (t has no sign).
void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += 84) {
    float scale[16], minimum[16];
    for (int j = 0; j < 16; ++j) {
      const float low = smallest(row + 16 * j, 16);
      minimum[j] = low < 0.0f ? -low : 0.0f;
      const float high = largest(row + 16 * j, 16) + minimum[j];
      scale[j] = high > 0.0f ? high / 3.0f : 0.0f;
    }
    put_half_value(largest(scale, 16) / 15.0f, out + 80);
    put_half_value(largest(minimum, 16) / 15.0f, out + 82);
    const float d = half_at(out + 80);
    const float dmin = half_at(out + 82);
    std::uint8_t s[16], t[16], u[256];
    encode(scale, 16, d, 0.0f, 0, 15, s);
    encode(minimum, 16, dmin, 0.0f, 0, 15, t);
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<std::byte>(s[j] | t[j] << 4);
      encode(row + 16 * j, 16, d * static_cast<float>(s[j]), -dmin * static_cast<float>(t[j]), 0, 3, u + 16 * j);
    }
    for (int h = 0; h < 2; ++h) put_bit_pairs(u + 128 * h, out + 16 + 32 * h);
  }
}

}  // namespace

extern const Quant q2_k;
const Quant q2_k = of_codes<Format>(
    {.summary = "2-bit, 16 x 16 with 4-bit scales and minima", .fallback = "q4_0", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
