// Q4_0, Q4_1, Q5_0, Q5_1 and what is laid out like them: blocks of 32 elements,
//   f16 d
//   f16 m      (kMinimum)
//   4 bytes    (5 bits) fifth bits: bit i of the little-endian word belongs to element i
//   16 bytes   nibbles: element i low in byte i, element i + 16 high
// x = d u + m, or x = d (u - kZero) without a minimum. Panel head: d (16 f16), m (16 f16).
#pragma once

#include "kernel/int_panels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

template <int kCodeBits, bool kMinimum>
struct NibbleBlocks {
  static constexpr int kBits = kCodeBits, kZero = kMinimum ? 0 : 1 << (kBits - 1), kBlock = 32, kScales = 1;
  static constexpr bool kMin = kMinimum;
  static constexpr int kFifths = kMin ? 4 : 2, kNibbles = kFifths + (kBits == 5 ? 4 : 0), kBlockBytes = kNibbles + 16;
  static constexpr int kHeadBytes = kMin ? 64 : 32;
  static_assert(kBits == 4 || kBits == 5);

  static void codes(const std::byte* block, std::uint8_t* u) {
    nibbles(block + kNibbles, u, 16);
    if constexpr (kBits == 5) add_fifth_bits(block + kFifths, u);
  }
  static void put_codes(const std::uint8_t* u, std::byte* block) {
    if constexpr (kBits == 5) put_fifth_bits(u, block + kFifths);
    put_nibbles(u, block + kNibbles, 16);
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
    if constexpr (kMin) kernel::KVASIR_TARGET::put_half(block + 2, row, head + 32);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32* m) {
    d[0] = kernel::KVASIR_TARGET::get_halves(head);
    if constexpr (kMin) m[0] = kernel::KVASIR_TARGET::get_halves(head + 32);
  }

  static void quantise(const float* row, std::byte* out, std::int64_t n) {
    constexpr int kTop = (1 << kBits) - 1;
    for (std::int64_t b = 0; b < n / 32; ++b, row += 32, out += kBlockBytes) {
      std::uint8_t u[32];
      if constexpr (kMin) {
        quantise_range(row, 32, kTop, out, u);
      } else {
        // The extreme value maps to -kZero, the only code without a mirror image.
        kernel::KVASIR_TARGET::put_half_value(extreme(row, 32) / static_cast<float>(-kZero), out);
        encode(row, 32, kernel::KVASIR_TARGET::half_at(out), 0.0f, kZero, kTop, u);
      }
      put_codes(u, out);
    }
  }
};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
