// The mean of each channel over the tokens of a page, in 8 bits per channel.
//
// Keys are offset: half of their energy stands in channel means (Qwen2's biases, what RoPE leaves of slow channels),
// and a softmax does not see it. What is left after subtracting the mean as stored is quantised, so how exact the
// stored mean is hardly matters; it must fit many scales, though. Code v stands for sign(v) (2^e (1 + m / 8) - 1) / 256
// with e = |v| / 8, m = |v| mod 8: linear with steps of 1/2048 around 0, then with relative steps of 1/8, up to 240.
#pragma once

#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

inline constexpr float kMeanUnit = 0x1p-8f;

// NaN becomes 0.
static inline std::int8_t encode_mean(float x) {
  const float size = __builtin_fabsf(x) * (1 / kMeanUnit) + 1.0f;
  if (!(size < 0x1p16f)) return x > 0 ? 127 : x < 0 ? -127 : 0;
  std::uint32_t bits;
  __builtin_memcpy(&bits, &size, 4);
  const std::uint32_t code = (bits - 0x3f800000u + 0x7ffffu + ((bits >> 20) & 1)) >> 20;
  const int v = static_cast<int>(code < 127 ? code : 127);
  return static_cast<std::int8_t>(x < 0 ? -v : v);
}

// 16 means at once.
KVASIR_INLINE F32 decode_mean(const std::int8_t* codes) {
  const I32 code = load_i8(codes);
  const I32 size = to_i32(abs(to_f32(code)));
  const F32 power = bits_to_f32(add(shift_left32<20>(size), set1_i32(0x3f800000)));
  const I32 value = f32_to_bits(mul(sub(power, set1(1.0f)), set1(kMeanUnit)));
  return bits_to_f32(add(value, and_(code, set1_i32(INT32_MIN))));  // the sign
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
