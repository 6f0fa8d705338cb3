// Angle quantisers of PolarQuant (Han et al. 2025, arXiv 2502.02617). Level 1 is the angle of two coordinates, uniform
// on [0, 2 pi): equal cells. Level l >= 2 is the angle of two lengths of 2^(l-1) Gaussian coordinates each, on
// [0, pi / 2] with density ~ sin^(2^(l-1) - 1)(2 psi): Lloyd-Max cells, symmetric about pi / 4.
//
// Cosines and sines of these constants are worked out by the compiler, so that no mathematical library decides about a
// stored bit.
#pragma once

#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr double kPi = 3.14159265358979323846;

// Taylor series, 0 <= x <= 2 pi: to about 1e-14.
constexpr double cosine(double x) {
  double term = 1;
  double sum = 1;
  for (int i = 1; i < 30; ++i) {
    term *= -x * x / ((2 * i - 1) * (2 * i));
    sum += term;
  }
  return sum;
}
constexpr double sine(double x) { return x > kPi / 2 ? cosine(x - kPi / 2) : cosine(kPi / 2 - x); }

// Levels below pi / 4 of a Lloyd-Max quantiser of 2^bits levels; the others mirror them.
template <int level, int bits>
struct PolarAngles;
template <>
struct PolarAngles<2, 1> {
  static constexpr double kBelow[] = {0.5};
};
template <>
struct PolarAngles<2, 2> {
  static constexpr double kBelow[] = {0.3097561167, 0.6339802391};
};
template <>
struct PolarAngles<3, 1> {
  static constexpr double kBelow[] = {0.5833333333};
};
template <>
struct PolarAngles<3, 2> {
  static constexpr double kBelow[] = {0.4262496953, 0.6743849988};
};
template <>
struct PolarAngles<4, 1> {
  static constexpr double kBelow[] = {0.6431547624};
};
template <>
struct PolarAngles<4, 2> {
  static constexpr double kBelow[] = {0.5242140928, 0.7059094048};
};

// What the codes of one level stand for, and the directions that separate them.
template <int level, int bits>
struct PolarLevel {
  static constexpr int kCount = 1 << bits;
  // Boundaries that are compared: at level 1 those inside a quadrant.
  static constexpr int kBoundaries = level == 1 ? kCount / 4 - 1 : kCount - 1;
  alignas(64) float cos[16] = {};
  alignas(64) float sin[16] = {};
  float bound_cos[16] = {};
  float bound_sin[16] = {};

  static constexpr double angle(int i) {
    if constexpr (level == 1)
      return 2 * kPi * (i + 0.5) / kCount;
    else
      return i < kCount / 2 ? PolarAngles<level, bits>::kBelow[i]
                            : kPi / 2 - PolarAngles<level, bits>::kBelow[kCount - 1 - i];
  }
  constexpr PolarLevel() {
    for (int i = 0; i < kCount; ++i) {
      cos[i] = static_cast<float>(cosine(angle(i)));
      sin[i] = static_cast<float>(sine(angle(i)));
    }
    for (int i = 0; i < kBoundaries; ++i) {
      const double b = 0.5 * (angle(i) + angle(i + 1));
      bound_cos[i] = static_cast<float>(cosine(b));
      bound_sin[i] = static_cast<float>(sine(b));
    }
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
