// Codes as MLX has them, of 6 and 8 bits, in blocks of 64: x = s u + b.
//   f32 s, f32 b
//   64 bytes             (8 bits) codes
//   32 bytes, 16 bytes   (6 bits) low four bits: element i low in byte i, element i + 32 high; then the high two bits:
//                        byte i has elements i, i + 16, i + 32, i + 48 from low to high bits
// s has at most 16 significant bits (f16 and bf16 have less), so that sums of products are rounded once
// (kernel/int_sums.hpp). Panel head: s (16 f32), and 16 f32 of what belongs to code kZero.
#pragma once

#include "kernel/int_panels.hpp"
#include "weights/families/quantise.hpp"
#include "weights/families/short_scales.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

template <int kCodeBits>
struct AffineCodes {
  // 8 bits are multiplied as signed bytes by sets without VNNI.
  static constexpr int kBits = kCodeBits, kZero = kBits == 8 ? 128 : 0, kBlock = 64, kScales = 1;
  static constexpr bool kMin = true;
  static constexpr int kBlockBytes = 8 + kBlock * kBits / 8, kHeadBytes = 128;
  static_assert(kBits == 6 || kBits == 8);

  static void codes(const std::byte* block, std::uint8_t* u) {
    if constexpr (kBits == 8) {
      __builtin_memcpy(u, block + 8, 64);
    } else {
      nibbles(block + 8, u, 32);
      for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 16; ++i)
          u[16 * j + i] |= static_cast<std::uint8_t>((static_cast<int>(block[40 + i]) >> 2 * j & 3) << 4);
    }
  }
  static void put_codes(const std::uint8_t* u, std::byte* block) {
    if constexpr (kBits == 8) {
      __builtin_memcpy(block + 8, u, 64);
    } else {
      put_nibbles(u, block + 8, 32);
      for (int i = 0; i < 16; ++i)
        block[40 + i] =
            static_cast<std::byte>(u[i] >> 4 | u[i + 16] >> 4 << 2 | u[i + 32] >> 4 << 4 | u[i + 48] >> 4 << 6);
    }
  }
  static void pack_head(const std::byte* block, int row, std::byte* head) {
    float s, b;
    __builtin_memcpy(&s, block, 4);
    __builtin_memcpy(&b, block + 4, 4);
    b += static_cast<float>(kZero) * s;
    __builtin_memcpy(head + 4 * row, &s, 4);
    __builtin_memcpy(head + 64 + 4 * row, &b, 4);
  }
  KVASIR_INLINE void load_head(const std::byte* head, int, simd::KVASIR_TARGET::F32* d, simd::KVASIR_TARGET::F32* m) {
    d[0] = simd::KVASIR_TARGET::load(reinterpret_cast<const float*>(head));
    m[0] = simd::KVASIR_TARGET::load(reinterpret_cast<const float*>(head + 64));
  }

  static void quantise(const float* row, std::byte* out, std::int64_t n) {
    constexpr int kTop = (1 << kBits) - 1;
    for (std::int64_t k = 0; k < n / kBlock; ++k, row += kBlock, out += kBlockBytes) {
      const float b = smallest(row, kBlock), s = shortened((largest(row, kBlock) - b) / static_cast<float>(kTop));
      std::uint8_t u[kBlock];
      encode(row, kBlock, s, b, 0, kTop, u);
      __builtin_memcpy(out, &s, 4);
      __builtin_memcpy(out + 4, &b, 4);
      put_codes(u, out);
    }
  }
};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
