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

// x = x^(p-1) for 1e-12 <= x < 2^100, relative error below 1e-6: x = 2^n f, f in [sqrt 1/2, sqrt 2), a polynomial for
// f^-0.3 (interpolated at Chebyshev nodes, 2.5e-7) and 2^(-0.3 n) = 2^(-0.3 (n mod 10)) 2^(-3 floor(n / 10)). N vectors
// side by side: one alone would mostly wait for itself.
template <int N>
KVASIR_INLINE void powers_of_errors(F32 (&x)[N]) {
  alignas(64) static constexpr float kRoots[kLanes] = {1.0f,         0.812252402f, 0.659753978f, 0.535886705f,
                                                       0.435275286f, 0.353553385f, 0.287174582f, 0.233258247f,
                                                       0.189464569f, 0.153893054f};
  const F32 roots = load(kRoots);
  F32 n[N], r[N], y[N];
  KVASIR_UNROLL(4)
  for (int i = 0; i < N; ++i) {
    const I32 bits = f32_to_bits(x[i]);
    const I32 e = shift_right32<23>(sub(bits, set1_i32(0x3f3504f3)));
    r[i] = sub(bits_to_f32(sub(bits, shift_left32<23>(e))), set1(1.0f));
    n[i] = to_f32(e);
    y[i] = fma(set1(-0.06865045428276062f), r[i], set1(0.10550515353679657f));
  }
  constexpr float kRest[] = {-0.10927888751029968f, 0.12284412235021591f, -0.1493787318468094f,
                             0.1950054168701172f,   -0.3000006377696991f, 1.0f};
  KVASIR_UNROLL(8)
  for (const float c : kRest) KVASIR_UNROLL(4)
  for (int i = 0; i < N; ++i) y[i] = fma(y[i], r[i], set1(c));
  KVASIR_UNROLL(4)
  for (int i = 0; i < N; ++i) {
    const F32 tens = round(fma(n[i], set1(0.1f), set1(-0.45f)));
    const F32 root = lookup<16>(roots, to_i32(fma(tens, set1(-10.0f), n[i])));
    const I32 power = to_i32(fma(tens, set1(-3.0f * 0x1p23f), set1(127.0f * 0x1p23f)));
    x[i] = mul(mul(y[i], root), bits_to_f32(power));
  }
}
KVASIR_INLINE F32 power_of_error(F32 x) {
  F32 one[1] = {x};
  powers_of_errors(one);
  return one[0];
}

struct HqqStep {
  F32 objective;  // sum |x - x^|^p in units of s^p
  F32 move;       // what is to be added to m, in units of s
};

// One step for 16 groups of n numbers, n even: number i of group l is x[i * stride + l].
template <class Grid>
KVASIR_INLINE HqqStep hqq_step(const float* x, std::ptrdiff_t stride, int n, F32 m, F32 inverse, float beta) {
  constexpr int N = 2;
  const F32 inverse_beta = set1(1.0f / beta);
  HqqStep r{zero(), zero()};
  KVASIR_UNROLL(1)
  for (int i = 0; i < n; i += N) {
    F32 error[N], power[N];
    KVASIR_UNROLL(4)
    for (int j = 0; j < N; ++j) {
      const F32 place = place_of<Grid>(load(x + (i + j) * stride), m, inverse);
      error[j] = sub(place, round(clamp_place<Grid>(place)));
      power[j] = max(abs(error[j]), set1(1e-12f));
    }
    powers_of_errors(power);
    KVASIR_UNROLL(4)
    for (int j = 0; j < N; ++j) {
      const F32 limit = mul(power[j], inverse_beta);
      r.objective = fma(abs(error[j]), power[j], r.objective);
      r.move = add(r.move, min(limit, max(sub(zero(), limit), error[j])));
    }
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
