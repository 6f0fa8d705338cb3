// Q3_K and Q6_K: f16 d and a signed byte s for each of 16 sub-blocks of 16, x = (d s) (u - zero).
// Panel head: d (16 f16), s (16 sub-blocks, 16 rows) int8.
#pragma once

#include "kernel/int_panels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

struct SignedScales {
  static constexpr int kHeadBytes = 32 + 256;

  KVASIR_INLINE void load_head(const std::byte* head, int sub, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32*) {
    using namespace simd::KVASIR_TARGET;
    const F32 scale = kernel::KVASIR_TARGET::get_halves(head);
    const auto* s = reinterpret_cast<const std::int8_t*>(head + 32 + 32 * sub);
    d[0] = mul(scale, to_f32(load_i8(s)));
    d[1] = mul(scale, to_f32(load_i8(s + 16)));
  }
};

// d (f16 at `d_out`), scales in [-limit, limit] and codes in [0, 2 zero - 1] of 256 floats. The extreme value of a
// sub-block maps to -zero, the only code without a mirror image; hence the sign of s.
KVASIR_INLINE void quantise_signed_scales(const float* x, int zero, int limit, std::byte* d_out, std::int8_t* s,
                                          std::uint8_t* u) {
  float scale[16];
  for (int j = 0; j < 16; ++j) scale[j] = extreme(x + 16 * j, 16) / static_cast<float>(-zero);
  kernel::KVASIR_TARGET::put_half_value(__builtin_fabsf(extreme(scale, 16)) / static_cast<float>(limit), d_out);
  const float d = kernel::KVASIR_TARGET::half_at(d_out);
  std::uint8_t biased[16];
  encode(scale, 16, d, 0.0f, limit, 2 * limit, biased);
  for (int j = 0; j < 16; ++j) {
    s[j] = static_cast<std::int8_t>(biased[j] - limit);
    encode(x + 16 * j, 16, d * static_cast<float>(s[j]), 0.0f, zero, 2 * zero - 1, u + 16 * j);
  }
}

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
