// 2^x of vectors, for weights of a softmax. Included by sources that are compiled per instruction set.
#pragma once

#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

// 2^x for x <= 0 to within 1.7e-7 of its size, 0 below -126 and for -inf. NaN stays NaN. Adding 1.5 * 2^23 + 127 rounds
// x to an integer n and leaves 127 + n where a shift makes 2^n of it; the polynomial is 2^f, |f| <= 1/2 (minimax of the
// relative error, with 2^0 = 1).
KVASIR_INLINE simd::KVASIR_TARGET::F32 weight_of(simd::KVASIR_TARGET::F32 x) {
  using namespace simd::KVASIR_TARGET;
  const F32 low = set1(-126.0f);
  const F32 bounded = max(low, x);
  const F32 magic = set1(0x1.8p23f + 127.0f);
  const F32 t = add(bounded, magic);
  const F32 f = sub(bounded, sub(t, magic));
  F32 p = set1(1.32647273e-3f);
  p = fma(p, f, set1(9.67151299e-3f));
  p = fma(p, f, set1(5.55073358e-2f));
  p = fma(p, f, set1(2.40222424e-1f));
  p = fma(p, f, set1(6.93147004e-1f));
  p = fma(p, f, set1(1.0f));
  return zero_if_less(x, low, mul(p, bits_to_f32(shift_left32<23>(f32_to_bits(t)))));
}

}  // namespace kvasir::kernel::KVASIR_TARGET
