// IEEE half and bfloat16 as bits, one value at a time; vectors of them are in simd/vec.hpp. Always inlined, because
// sources that are compiled per instruction set use them and must not leave a copy behind that other code could link
// to.
#pragma once

#include <bit>
#include <cstdint>

namespace kvasir::simd {

// Exact.
__attribute__((always_inline)) constexpr float f16_to_f32(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000) << 16;
  const std::uint32_t exponent = (h >> 10) & 31;
  const std::uint32_t mantissa = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

// Rounds to nearest even; overflows to infinity. NaN becomes quiet and keeps the upper bits of its payload, as in
// hardware, so that all instruction sets write the same bytes.
__attribute__((always_inline)) constexpr std::uint16_t f32_to_f16(float f) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(f);
  const auto sign = static_cast<std::uint16_t>((x >> 16) & 0x8000);
  const std::uint32_t a = x & 0x7fffffff;
  if (a > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | ((a >> 13) & 0x3ff));
  if (a >= 0x477ff000) return sign | 0x7c00;  // 65520 and above round to infinity
  if (a < 0x38800000) {                       // below 2^-14: subnormal, in units of 2^-24
    if (a < 0x33000000) return sign;          // below 2^-25
    const int shift = 126 - static_cast<int>(a >> 23);
    const std::uint32_t m = (a & 0x7fffff) | 0x800000;
    const std::uint32_t q = m >> shift;
    const std::uint32_t rest = m & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    return static_cast<std::uint16_t>(sign | (q + (rest > half || (rest == half && (q & 1)))));
  }
  const std::uint32_t r = a + 0xfff + ((a >> 13) & 1) - 0x38000000;
  return static_cast<std::uint16_t>(sign | (r >> 13));
}

__attribute__((always_inline)) constexpr float bf16_to_f32(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

// Rounds to nearest even, keeps NaN.
__attribute__((always_inline)) constexpr std::uint16_t f32_to_bf16(float f) {
  const std::uint32_t x = std::bit_cast<std::uint32_t>(f);
  if ((x & 0x7fffffff) > 0x7f800000) return static_cast<std::uint16_t>((x >> 16) | 0x40);
  return static_cast<std::uint16_t>((x + 0x7fff + ((x >> 16) & 1)) >> 16);
}

}  // namespace kvasir::simd
