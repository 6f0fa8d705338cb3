// Q4_K and Q5_K: super-blocks of 256 elements in 8 sub-blocks of 32, x = (d s) u - (dmin t).
//   f16 d, f16 dmin
//   12 bytes    6-bit scales s and minima t, as below
//   32 bytes    (5 bits) fifth bits: bit j of byte i belongs to element i of sub-block j
//   128 bytes   nibbles: 64 elements per 32 bytes, the low nibbles are the first 32
// The 12 bytes:
//   byte j   (0..3)   scale j in bits 0-5, bits 6-7 are bits 4-5 of scale j+4
//   byte j+4          minimum j in bits 0-5, bits 6-7 are bits 4-5 of minimum j+4
//   byte j+8          low nibble: bits 0-3 of scale j+4, high nibble: bits 0-3 of minimum j+4
// In a panel head they are unpacked to a byte each: d (16 f16), dmin (16 f16), scales (8, 16), minima (8, 16).
#pragma once

#include "kernel/int_panels.hpp"
#include "weights/families/quantise.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

// Scales, minima (written to the first 16 bytes of `block`) and codes in [0, top] of 256 floats, by range.
KVASIR_INLINE void quantise_k_scales(const float* x, int top, std::byte* block, std::uint8_t* u) {
  using kernel::KVASIR_TARGET::half_at;
  using kernel::KVASIR_TARGET::put_half_value;
  float scale[8], minimum[8];
  for (int j = 0; j < 8; ++j) {
    const float low = smallest(x + 32 * j, 32);
    minimum[j] = low < 0.0f ? -low : 0.0f;
    const float high = largest(x + 32 * j, 32) + minimum[j];
    scale[j] = high > 0.0f ? high / static_cast<float>(top) : 0.0f;
  }
  put_half_value(largest(scale, 8) / 63.0f, block);
  put_half_value(largest(minimum, 8) / 63.0f, block + 2);
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  std::uint8_t s[8], t[8];
  encode(scale, 8, d, 0.0f, 0, 63, s);
  encode(minimum, 8, dmin, 0.0f, 0, 63, t);
  auto* p = reinterpret_cast<std::uint8_t*>(block + 4);
  for (int j = 0; j < 4; ++j) {
    p[j] = static_cast<std::uint8_t>(s[j] | (s[j + 4] >> 4) << 6);
    p[j + 4] = static_cast<std::uint8_t>(t[j] | (t[j + 4] >> 4) << 6);
    p[j + 8] = static_cast<std::uint8_t>((s[j + 4] & 15) | (t[j + 4] & 15) << 4);
  }
  for (int j = 0; j < 8; ++j)
    encode(x + 32 * j, 32, d * static_cast<float>(s[j]), -dmin * static_cast<float>(t[j]), 0, top, u + 32 * j);
}

template <int kCodeBits>
struct KScales {
  static constexpr int kBits = kCodeBits, kZero = 0, kBlock = 256, kScales = 1;
  static constexpr bool kMin = true;
  static constexpr int kFifths = 16, kNibbles = kFifths + (kBits == 5 ? 32 : 0), kBlockBytes = kNibbles + 128;
  static constexpr int kHeadBytes = 64 + 256;
  static_assert(kBits == 4 || kBits == 5);

  static void codes(const std::byte* block, std::uint8_t* u) {
    for (int i = 0; i < 4; ++i) nibbles(block + kNibbles + 32 * i, u + 64 * i, 32);
    if constexpr (kBits == 5) add_bit_planes(block + kFifths, 4, u);
  }

  static void pack_head(const std::byte* block, int row, std::byte* head) {
    kernel::KVASIR_TARGET::put_half(block, row, head);
    kernel::KVASIR_TARGET::put_half(block + 2, row, head + 32);
    const auto* p = reinterpret_cast<const std::uint8_t*>(block + 4);
    for (int j = 0; j < 4; ++j) {
      head[64 + 16 * j + row] = static_cast<std::byte>(p[j] & 63);
      head[64 + 16 * (j + 4) + row] = static_cast<std::byte>((p[j + 8] & 15) | (p[j] >> 6) << 4);
      head[192 + 16 * j + row] = static_cast<std::byte>(p[j + 4] & 63);
      head[192 + 16 * (j + 4) + row] = static_cast<std::byte>(p[j + 8] >> 4 | (p[j + 4] >> 6) << 4);
    }
  }

  KVASIR_INLINE void load_head(const std::byte* head, int sub, simd::KVASIR_TARGET::F32* d,
                               simd::KVASIR_TARGET::F32* m) {
    using namespace simd::KVASIR_TARGET;
    const auto* scales = reinterpret_cast<const std::uint8_t*>(head + 64 + 16 * sub);
    const auto* minima = reinterpret_cast<const std::uint8_t*>(head + 192 + 16 * sub);
    d[0] = mul(kernel::KVASIR_TARGET::get_halves(head), to_f32(load_u8(scales)));
    // -0 - x, not 0 - x: a zero minimum must change sign too for x - m to be what the definition gives, bit for bit.
    m[0] = simd::KVASIR_TARGET::sub(set1(-0.0f),
                                    mul(kernel::KVASIR_TARGET::get_halves(head + 32), to_f32(load_u8(minima))));
  }

  static void quantise(const float* row, std::byte* out, std::int64_t n) {
    for (std::int64_t b = 0; b < n / 256; ++b, row += 256, out += kBlockBytes) {
      std::uint8_t u[256];
      quantise_k_scales(row, (1 << kBits) - 1, out, u);
      if constexpr (kBits == 5) put_bit_planes(u, 4, out + kFifths);
      for (int i = 0; i < 4; ++i) put_nibbles(u + 64 * i, out + kNibbles + 32 * i, 32);
    }
  }
};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
