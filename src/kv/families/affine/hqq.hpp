// Half-quadratic refinement of the minimum m of affine groups (Badri and Shaji, "Half-Quadratic Quantization of Large
// Machine Learning Models", 2023). It minimises sum |x - x^|^p, p = 0.7, over m; the scale s is fixed. For sources
// compiled per instruction set.
//
// One step, in units of s:
//   e = x - x^                                     errors
//   E = shrink(e), |E| = max(0, |e| - |e|^(p-1) / beta)      so e - E is e clipped to +-|e|^(p-1) / beta
//   m += 10 mean(e - E)                            the paper's step falls far short of the best m, hence the 10
//   beta starts at 5 and grows by half per step
//
// How much the objective falls on Gaussian groups of 64:
//   bits                                       2      3      4      8
//   three steps (used)                        4.2 %  4.0 %  3.9 %  4.3 %
//   five steps                                4.9 %  4.6 %  4.6 %  4.7 %
//   twenty steps without the 10, beta by 5 %  4.2 %  3.9 %  3.8 %  0.7 %
//
// Unlike the reference implementation, every group keeps the iterate with the least objective. Each iterate is judged
// as it would be stored, with m rounded to half. So the result is never worse than the start.
#pragma once

#include "kv/families/affine/grid.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr int kHqqSteps = 3;
inline constexpr float kHqqReach = 10.0f;
inline constexpr float kHqqBeta = 5.0f;
inline constexpr float kHqqGrowth = 1.5f;

// x^(p-1) for normal x, relative error below 1e-6, and a large number for 0: x = 2^(16 a + b - 127) f, f in [1, 2); the
// powers of the first factor are looked up by the two halves of the exponent's bits, that of f is a polynomial
// (interpolated, 2e-7).
KVASIR_INLINE F32 power_of_error(F32 x) {
  alignas(64) static constexpr float kFine[kLanes] = {
      22.627417f,  18.3791737f, 14.9285279f, 12.1257325f, 9.84915531f, 8.0f,        6.49801917f, 5.27803164f,
      4.28709385f, 3.48220225f, 2.82842712f, 2.29739671f, 1.86606598f, 1.51571657f, 1.23114441f, 1.0f};
  alignas(64) static constexpr float kCoarse[kLanes] = {
      1.30199062e+10f, 467373275.0f,    16777216.0f,     602248.763f,
      21618.8176f,     776.046882f,     27.857618f,      1.0f,
      0.0358968236f,   0.00128858194f,  4.62559987e-05f, 1.66044343e-06f,
      5.96046448e-08f, 2.13961742e-09f, 7.6805469e-11f,  2.75707237e-12f};
  const I32 bits = f32_to_bits(x);
  const F32 r = sub(bits_to_f32(add(and_(bits, set1_i32(0x007fffff)), set1_i32(0x3f800000))), set1(1.0f));
  const F32 a = fma(set1(-0.299987048f), r, set1(1.0f));  // pairs of terms: one sum after the other would be waited for
  const F32 b = fma(set1(-0.146339521f), r, set1(0.194657907f));
  const F32 c = fma(set1(-0.0674130544f), r, set1(0.10881561f));
  const F32 d = fma(set1(-0.00546641368f), r, set1(0.0279848389f));
  const F32 r2 = mul(r, r);
  const F32 y = fma(fma(d, r2, c), mul(r2, r2), fma(b, r2, a));
  const F32 fine = lookup<16>(load(kFine), shift_right32<23>(bits));
  return mul(y, mul(fine, lookup<16>(load(kCoarse), shift_right32<27>(bits))));
}

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
    const F32 power = power_of_error(abs(error));
    r.objective = fma(abs(error), power, r.objective);
    r.move = add(r.move, limit_size(error, mul(power, inverse_beta)));
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
  const F32 reach = mul(s, set1(kHqqReach));
  F32 best = m;
  F32 least = set1(3e38f);
  const auto judge = [&](F32 objective) __attribute__((always_inline)) {
    // Where objective < least: m, else best; one of the terms is 0.
    best = add(zero_if_less(objective, least, best), sub(m, zero_if_less(objective, least, m)));
    least = min(least, objective);
  };
  float beta = kHqqBeta;
  for (int step = 0; step < kHqqSteps; ++step, beta *= kHqqGrowth) {
    const HqqStep r = hqq_step<Grid>(x, stride, n, m, inverse, beta);
    judge(r.objective);
    m = round_to_half(fma(r.move, reach, m));
  }
  judge(hqq_step<Grid>(x, stride, n, m, inverse, beta).objective);
  return add(best, zero());
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
