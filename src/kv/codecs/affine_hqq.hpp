// Half-quadratic refinement of the minimum of affine groups (Badri and Shaji, "Half-Quadratic Quantization of Large
// Machine Learning Models", 2023): minimises sum |x - x^|^p, p = 0.7, over m with s fixed. For sources compiled per
// instruction set.
//
// With errors e = x - x^ and the proximal errors E = shrink(e), |E| = max(0, |e| - |e|^(p-1) / beta), the step is
// m += mean(e - E), and e - E is e clipped to +-|e|^(p-1) / beta. In units of s, beta starts at 5. Such a step falls
// far short of the best m: it is taken ten times over, and beta grows by half per step. On Gaussian groups of 64 that
// lowers the objective in five steps by 5.0, 4.6, 4.7 and 4.7 % at 2, 3, 4 and 8 bits; single steps with beta growing
// by 5 %, by 4.2, 3.9, 3.8 and 0.7 % in twenty. Other than the reference implementation, every group keeps its best
// iterate by the objective itself, and judges each as it would be stored, with m rounded to half: the result is never
// worse than the start.
#pragma once

#include "kv/codecs/affine_grid.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr int kHqqSteps = 5;
inline constexpr float kHqqReach = 10.0f;
inline constexpr float kHqqBeta = 5.0f;
inline constexpr float kHqqGrowth = 1.5f;

// x^(p-1) for 2^-13 <= x < 8, relative error below 8e-6: x = 2^n f, f in [1, 2), the power of 2^n looked up, that of f
// a polynomial (interpolated at Chebyshev nodes, 6e-6). What is less or more counts as the nearest of these: in units
// of s the error of a number is at most 1/2 if the grid reaches it, and errors below 2^-13 weigh nothing.
KVASIR_INLINE F32 power_of_error(F32 x) {
  constexpr int kLeast = -13;
  alignas(64) static constexpr float kRoots[kLanes] = {
      14.9285279f, 12.1257325f, 9.84915531f, 8.0f,        6.49801917f, 5.27803164f, 4.28709385f,  3.48220225f,
      2.82842712f, 2.29739671f, 1.86606598f, 1.51571657f, 1.23114441f, 1.0f,        0.812252396f, 0.659753955f};
  x = min(max(x, set1(0x1p-13f)), set1(0x1.fffffep2f));
  const I32 bits = f32_to_bits(x);
  const F32 f = bits_to_f32(add(and_(bits, set1_i32(0x007fffff)), set1_i32(0x3f800000)));
  F32 y = set1(-0.0141982864f);
  constexpr float kRest[] = {0.131101569f, -0.506194034f, 1.06364088f, -1.36168593f, 1.68732992f};
  KVASIR_UNROLL(8)
  for (const float c : kRest) y = fma(y, f, set1(c));
  const I32 n = shift_right32<23>(sub(bits, set1_i32((127 + kLeast) << 23)));
  return mul(y, lookup<16>(load(kRoots), n));
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
    const F32 limit = mul(power, inverse_beta);
    r.objective = fma(abs(error), power, r.objective);
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
  const F32 reach = mul(s, set1(kHqqReach));
  F32 best = m;
  F32 least = set1(3e38f);
  float beta = kHqqBeta;
  for (int step = 0; step <= kHqqSteps; ++step, beta *= kHqqGrowth) {
    const HqqStep r = hqq_step<Grid>(x, stride, n, m, inverse, beta);
    // Where objective < least: m, else best; one of the terms is 0.
    best = add(zero_if_less(r.objective, least, best), sub(m, zero_if_less(r.objective, least, m)));
    least = min(least, r.objective);
    m = round_to_half(fma(r.move, reach, m));
  }
  return add(best, zero());
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
