// Affine grids: groups of numbers that share a scale s and a minimum m, x^ = (code + kShift) s + m. For sources
// compiled per instruction set.
//
// s and m are stored as IEEE halves, and codes are chosen with the stored ones, so that encoder and decoder mean the
// same grid. A group whose s rounds to 0 (a constant one, or a range that halves cannot express) has codes 0 and is m.
#pragma once

#include <cstdint>

#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// 2^B points, the outer ones on minimum and maximum (KIVI, arXiv:2402.02750, section 3; the same as quanto's).
template <int B>
struct MinMax {
  static constexpr int kBits = B;
  static constexpr float kShift = 0.0f;
  static constexpr float kSteps = (1 << B) - 1;  // that the range is divided into
  static constexpr bool kRefines = false;
};

// 2^B equal bins over the range, numbers stand for the middle of their bin.
template <int B>
struct MidRise {
  static constexpr int kBits = B;
  static constexpr float kShift = 0.5f;
  static constexpr float kSteps = 1 << B;
  static constexpr bool kRefines = false;
};

// MinMax whose m is then refined (kv/families/affine/hqq.hpp).
template <int B>
struct HalfQuadratic : MinMax<B> {
  static constexpr bool kRefines = true;
};

// What panel_dots sees of a code: 8 bits are stored as code - 128.
template <int B>
inline constexpr float kCodeBias = B == 8 ? 128.0f : 0.0f;
// The middle of those. Products of 8-bit queries or weights are taken against what is left of a code without it, so
// that their rounding does not multiply the large common part of a group.
template <int B>
inline constexpr float kCodeMiddle = ((1 << B) - 1) / 2.0f - kCodeBias<B>;

// x^ = stored * s + origin; shift: kShift of the grid.
template <int B>
KVASIR_INLINE F32 origin_of(float shift, F32 s, F32 m) {
  return fma(set1(kCodeBias<B> + shift), s, m);
}
template <int B>
KVASIR_INLINE F32 middle_of(float shift, F32 s, F32 m) {
  return fma(set1(kCodeMiddle<B> + kCodeBias<B> + shift), s, m);
}

template <class Grid>
KVASIR_INLINE F32 scale_of(F32 low, F32 high) {
  return div(sub(high, low), set1(Grid::kSteps));
}

// 1 / s, or 0 where s is 0.
KVASIR_INLINE F32 inverse_of(F32 s) { return zero_if_less(s, set1(0x1p-25f), div(set1(1.0f), s)); }

// Where x lies on the grid, and the code of that place: to nearest even, within 0 .. 2^B - 1.
template <class Grid>
KVASIR_INLINE F32 place_of(F32 x, F32 m, F32 inverse) {
  const F32 place = mul(sub(x, m), inverse);
  return Grid::kShift == 0.0f ? place : sub(place, set1(Grid::kShift));
}
template <class Grid>
KVASIR_INLINE F32 clamp_place(F32 place) {
  return min(set1((1 << Grid::kBits) - 1), max(zero(), place));
}

// A raw block as floats: what is not finite becomes the largest half of its sign, NaN the lowest.
KVASIR_INLINE F32 load_finite(const std::uint16_t* p) { return min(max(load_f16(p), set1(-65504.0f)), set1(65504.0f)); }

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
