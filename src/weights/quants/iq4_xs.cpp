// IQ4_XS: super-blocks of 256 in 8 sub-blocks of 32, x = (d (s - 32)) level[u] with s of 6 bits.
//              f16 d
//     2 bytes  the high two bits of s[j] at bit 2j of the little-endian word
//     4 bytes  the low four bits of s[j] in byte j / 2 (low nibble for even j, else high)
//   128 bytes  nibbles: 32 elements per 16 bytes, element i low in byte i, element i + 16 high
// Panel head: d (16 f16), s - 32 (8 sub-blocks, 16 rows) int8.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/levels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace kernel::KVASIR_TARGET;

struct Format : NonLinear {
  static constexpr int kBits = 4, kBlock = 256, kScales = 1, kBlockBytes = 136, kHeadBytes = 32 + 128;
  static constexpr bool kMin = false;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int j = 0; j < 8; ++j) nibbles(block + 8 + 16 * j, u + 32 * j, 16);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    put_half(block, row, head);
    std::uint16_t high;
    __builtin_memcpy(&high, block + 2, 2);
    const auto* low = reinterpret_cast<const std::uint8_t*>(block + 4);
    for (int j = 0; j < 8; ++j)
      head[32 + 16 * j + row] =
          static_cast<std::byte>(((low[j / 2] >> j % 2 * 4 & 15) | (high >> 2 * j & 3) << 4) - 32);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int sub, F32* d, F32*) {
    d[0] = mul(get_halves(head), to_f32(load_i8(reinterpret_cast<const std::int8_t*>(head + 32 + 16 * sub))));
  }
};

// The extreme value of a sub-block maps to the first level, the largest; hence the sign of s.
void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += 136) {
    float scale[8];
    for (int j = 0; j < 8; ++j) scale[j] = extreme(row + 32 * j, 32) / static_cast<float>(Format::kLevels[0]);
    put_half_value(__builtin_fabsf(extreme(scale, 8)) / 31.0f, out);
    const float d = half_at(out);
    std::uint8_t s[8];
    encode(scale, 8, d, 0.0f, 32, 63, s);
    std::uint16_t high = 0;
    for (int j = 0; j < 8; ++j) {
      high |= static_cast<std::uint16_t>(s[j] >> 4 << 2 * j);
      std::uint8_t u[32];
      encode_levels(row + 32 * j, 32, d * static_cast<float>(s[j] - 32), Format::kLevels, u);
      put_nibbles(u, out + 8 + 16 * j, 16);
    }
    __builtin_memcpy(out + 2, &high, 2);
    for (int i = 0; i < 4; ++i) out[4 + i] = static_cast<std::byte>((s[2 * i] & 15) | (s[2 * i + 1] & 15) << 4);
  }
}

}  // namespace

extern const Quant iq4_xs;
const Quant iq4_xs = of_codes<Format>(
    {.summary = "4-bit, 8 x 32 with 6-bit scales, 16 levels", .fallback = "iq4_nl", .quantise = quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
