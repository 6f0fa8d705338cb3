// exp(x) for x <= 0 over arrays, in portable code that compilers vectorise: the same bits on every machine, which libm
// does not promise, and 10 times as fast. Used where probabilities of a whole vocabulary are needed.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace kvasir::run {

// exp(x) for x <= 0, relative error < 3e-7; 0 below -87 (where exp leaves the normal f32 range), for -inf and for NaN.
// Cody-Waite reduction x = n ln2 + r, |r| <= ln2 / 2, and the Taylor polynomial of degree 7 (remainder 6e-9).
inline float exp_nonpositive(float x) {
  const float clamped = x > -87.0f ? x : -87.0f;  // also takes NaN
  constexpr float kRound = 12582912.0f;           // 1.5 * 2^23: adding it rounds to an integer
  const float n = (clamped * 1.44269504f + kRound) - kRound;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float scale = std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
  const float y = p * scale;
  return x > -87.0f ? y : 0.0f;
}

// The largest element that is not NaN; -inf when there is none.
float largest(std::span<const float> x);

// Sum over i of exp(x[i] - max) in double, blocks of 256 first (a fixed order). REQUIRES: max finite, x[i] <= max or
// NaN.
double sum_of_exp(std::span<const float> x, float max);

}  // namespace kvasir::run
