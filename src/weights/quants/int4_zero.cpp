// AWQ, GPTQ and compressed-tensors: x = d (u - z) with u of 4 bits and whole z in 0..16, groups of a multiple of 32.
// The folders lay codes out in three ways (weights/safetensors/int4_rows.hpp); as rows of blocks of 32 they are
//   f16 d, u8 z, 0, 16 bytes nibbles: element i low in byte i, element i + 16 high
// Panel head: d (16 f16), z (16 f16). d z has at most 16 bits, so minima are exact as floats and so is every x.
#include <algorithm>
#include <cmath>

#include "weights/families/int_codes.hpp"
#include "weights/families/nibble_blocks.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

struct Format {
  static constexpr int kBits = 4, kZero = 0, kBlock = 32, kScales = 1;
  static constexpr bool kMin = true;
  static constexpr int kBlockBytes = 20, kHeadBytes = 64;

  static void codes(const std::byte* block, std::uint8_t* u) { nibbles(block + 4, u, 16); }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
    kernel::KVASIR_TARGET::put_half_value(static_cast<float>(block[2]), head + 32 + 2 * row);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32* m) {
    using namespace simd::KVASIR_TARGET;
    d[0] = kernel::KVASIR_TARGET::get_halves(head);
    m[0] = sub(set1(0.0f), mul(d[0], kernel::KVASIR_TARGET::get_halves(head + 32)));
  }

  static void quantise(const float* row, std::byte* out, std::int64_t n) {
    for (std::int64_t b = 0; b < n / kBlock; ++b, row += kBlock, out += kBlockBytes) {
      const float low = std::min(0.0f, *std::min_element(row, row + kBlock));
      const float high = std::max(0.0f, *std::max_element(row, row + kBlock));
      kernel::KVASIR_TARGET::put_half_value((high - low) / 15.0f, out);
      const float d = kernel::KVASIR_TARGET::half_at(out);
      const auto zero = static_cast<int>(d > 0 ? std::clamp(std::nearbyint(-low / d), 0.0f, 15.0f) : 0.0f);
      std::uint8_t u[kBlock];
      for (int i = 0; i < kBlock; ++i)
        u[i] = static_cast<std::uint8_t>(
            d > 0 ? std::clamp(std::nearbyint(row[i] / d) + static_cast<float>(zero), 0.0f, 15.0f) : 0.0f);
      out[2] = static_cast<std::byte>(zero);
      out[3] = std::byte{0};
      put_nibbles(u, out + 4, 16);
    }
  }
};

}  // namespace

extern const Quant int4_zero;
const Quant int4_zero =
    of_codes<Format>({.summary = "4-bit of AWQ, GPTQ and compressed-tensors: f16 scale and whole zero point",
                      .quantise = Format::quantise});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
