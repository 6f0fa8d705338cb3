// Half-quadratic refinement of the minimum of affine groups (Badri and Shaji, "Half-Quadratic Quantization of Large
// Machine Learning Models", 2023): minimises sum |x - x^|^p, p = 0.7, over m with s fixed. For sources compiled per
// instruction set.
//
// With errors e = x - x^ and the proximal errors E = shrink(e), |E| = max(0, |e| - |e|^(p-1) / beta), the step is
// m += mean(e - E), and e - E is e clipped to +-|e|^(p-1) / beta. In units of s, beta starts at 5 and grows by 5 % per
// step: of beta 2 .. 40 and growth 0 .. 35 % that gave the least error on Gaussian groups of 64 at 2, 3, 4 and 8 bits.
// Other than the reference implementation, every group stops on its own, keeps its best iterate by the objective
// itself, and judges each as it would be stored, with m rounded to half: the result is never worse than the start.
#pragma once

#include "kv/codecs/affine_grid.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr int kHqqSteps = 20;
inline constexpr int kHqqPatience = 3;  // steps without gain in any of 16 groups, after which they end
inline constexpr float kHqqBeta = 5.0f;
inline constexpr float kHqqGrowth = 1.05f;

// Natural logarithm of normal x > 0, absolute error below 2e-7: x = 2^n f, f in [sqrt 1/2, sqrt 2), and the polynomial
// of Cephes' logf in f - 1.
KVASIR_INLINE F32 log_normal(F32 x) {
  const I32 bits = f32_to_bits(x);
  const I32 n = shift_right32<23>(sub(bits, set1_i32(0x3f3504f3)));
  const F32 r = sub(bits_to_f32(sub(bits, shift_left32<23>(n))), set1(1.0f));
  F32 p = set1(7.0376836292e-2f);
  p = fma(p, r, set1(-1.1514610310e-1f));
  p = fma(p, r, set1(1.1676998740e-1f));
  p = fma(p, r, set1(-1.2420140846e-1f));
  p = fma(p, r, set1(1.4249322787e-1f));
  p = fma(p, r, set1(-1.6668057665e-1f));
  p = fma(p, r, set1(2.0000714765e-1f));
  p = fma(p, r, set1(-2.4999993993e-1f));
  p = fma(p, r, set1(3.3333331174e-1f));
  const F32 square = mul(r, r);
  F32 y = fma(mul(p, r), square, mul(set1(-0.5f), square));
  y = add(r, y);
  return fma(to_f32(n), set1(0.69314718f), y);
}

// x^(p-1) for 1e-12 <= x < 2^100, relative error below 1e-6.
KVASIR_INLINE F32 power_of_error(F32 x) { return exp_in_range(mul(set1(-0.3f), log_normal(x))); }

struct HqqStep {
  F32 objective;  // sum |x - x^|^p in units of s^p
  F32 move;       // what is to be added to m, in units of s
};

// One step for 16 groups of n numbers: number i of group l is x[i * stride + l].
template <class Grid>
KVASIR_INLINE HqqStep hqq_step(const float* x, std::ptrdiff_t stride, int n, F32 m, F32 inverse, float beta) {
  const F32 inverse_beta = set1(1.0f / beta);
  HqqStep r{zero(), zero()};
  for (int i = 0; i < n; ++i) {
    const F32 place = place_of<Grid>(load(x + i * stride), m, inverse);
    const F32 error = sub(place, round(clamp_place<Grid>(place)));
    const F32 size = abs(error);
    const F32 power = power_of_error(max(size, set1(1e-12f)));
    const F32 limit = mul(power, inverse_beta);
    r.objective = fma(size, power, r.objective);
    r.move = add(r.move, min(limit, max(sub(zero(), limit), error)));
  }
  r.move = div(r.move, set1(static_cast<float>(n)));
  return r;
}

KVASIR_INLINE F32 round_to_half(F32 x) {
  std::uint16_t bits[kLanes];
  store_f16(bits, min(max(x, set1(-65504.0f)), set1(65504.0f)));
  return load_f16(bits);
}

// The best m for 16 groups with scales s, from m on; s and m are halves.
template <class Grid>
static inline F32 hqq_refine(const float* x, std::ptrdiff_t stride, int n, F32 s, F32 m) {
  const F32 inverse = inverse_of(s);
  F32 best = m;
  F32 least = set1(3e38f);
  float beta = kHqqBeta;
  int idle = 0;
  for (int step = 0; step <= kHqqSteps && idle < kHqqPatience; ++step, beta *= kHqqGrowth) {
    const HqqStep r = hqq_step<Grid>(x, stride, n, m, inverse, beta);
    // Where objective < least: m, else best; one of the terms is 0.
    best = add(zero_if_less(r.objective, least, best), sub(m, zero_if_less(r.objective, least, m)));
    idle = reduce_max(sub(least, r.objective)) > 0.0f ? 0 : idle + 1;
    least = min(least, r.objective);
    m = round_to_half(fma(r.move, s, m));
  }
  return add(best, zero());
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
