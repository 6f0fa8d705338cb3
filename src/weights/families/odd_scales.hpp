// Super-blocks of 256 with scales of 4 bits, odd multiples of an f16: (2 s + 1) d, one or two to every 32 elements.
// Panel head: d (16 f16), s. One to every 32: 64 bytes, s of sub-block j of row r in byte 16 (j / 2) + r, low nibble
// for even j. Two: 128 bytes, those of sub-block j in byte 16 j + r, that of its first half low.
#pragma once

#include "kernel/int_panels.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

template <int kPerSub>
struct OddScales {
  static constexpr int kBlock = 256, kScales = kPerSub, kHeadBytes = 32 + 64 * kPerSub;

  // Scale i, of 8 or 16; in ascending order, the first one clears what was there.
  static void put_scale(int i, std::uint32_t s, int row, std::byte* head) {
    std::byte& at = head[32 + 16 * (i / 2) + row];
    at = i % 2 == 0 ? static_cast<std::byte>(s) : at | static_cast<std::byte>(s << 4);
  }

  // The scales s of sub-block `sub` as they are stored.
  KVASIR_INLINE void stored(const std::byte* head, int sub, simd::KVASIR_TARGET::I32 (&s)[kPerSub]) {
    using namespace simd::KVASIR_TARGET;
    const auto* p = reinterpret_cast<const std::uint8_t*>(head + 32);
    if constexpr (kPerSub == 1) {
      s[0] = and_(shift_right(load_u8(p + 16 * (sub / 2)), 4 * (sub % 2)), set1_i32(15));
    } else {
      const I32 both = load_u8(p + 16 * sub);
      s[0] = and_(both, set1_i32(15));
      s[1] = shift_right32<4>(both);
    }
  }

  // d[i] = (2 s + 1) d unit; exact where unit is a power of two.
  KVASIR_INLINE void load_scales(const std::byte* head, int sub, float unit, simd::KVASIR_TARGET::F32* d) {
    using namespace simd::KVASIR_TARGET;
    const F32 once = mul(kernel::KVASIR_TARGET::get_halves(head), set1(unit));
    const F32 twice = add(once, once);
    I32 s[kPerSub];
    stored(head, sub, s);
    KVASIR_UNROLL(2)
    for (int i = 0; i < kPerSub; ++i) d[i] = fma(twice, to_f32(s[i]), once);
  }
};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
