// Q1_0: blocks of 128, f16 d, 16 bytes of signs: element i is d where bit i % 8 of byte i / 8 is set, else -d.
#include "kernel/int_panels.hpp"
#include "weights/families/int_codes.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

// As 2 d u - d.
struct SignFormat {
  static constexpr int kBits = 1, kZero = 0, kBlock = 128, kScales = 1, kBlockBytes = 18, kHeadBytes = 32;
  static constexpr bool kMin = true;
  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int i = 0; i < 128; ++i) u[i] = static_cast<std::uint8_t>(static_cast<int>(block[2 + i / 8]) >> (i % 8) & 1);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32* m) {
    using namespace simd::KVASIR_TARGET;
    const F32 size = kernel::KVASIR_TARGET::get_halves(head);
    d[0] = add(size, size);
    m[0] = sub(set1(-0.0f), size);
  }
  static float weight(float, float m, int code) { return code ? -m : m; }
};

// d is the mean of the sizes, which is best for signs.
void quantise_signs(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / 128; ++b, row += 128, out += SignFormat::kBlockBytes) {
    float sum = 0.0f;
    for (int i = 0; i < 128; ++i) sum += __builtin_fabsf(row[i]);
    kernel::KVASIR_TARGET::put_half_value(sum / 128.0f, out);
    for (int i = 0; i < 16; ++i) {
      int bits = 0;
      for (int j = 0; j < 8; ++j) bits |= (row[8 * i + j] >= 0.0f ? 1 : 0) << j;
      out[2 + i] = static_cast<std::byte>(bits);
    }
  }
}

}  // namespace

extern const Quant q1_0;
const Quant q1_0 = of_codes<SignFormat>(
    {.summary = "signs, blocks of 128, f16 scale", .fallback = "q4_0", .quantise = quantise_signs});

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
