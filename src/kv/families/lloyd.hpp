// Lloyd-Max quantisers: the 2^b levels of least mean squared error for a coordinate of a randomly rotated vector.
//
// A coordinate of a uniformly random vector of length sqrt(d) in R^d has density ~ (1 - x^2/d)^((d-3)/2) on
// [-sqrt(d), sqrt(d)] and variance 1; for large d that is the unit Gaussian.
#pragma once

namespace kvasir::kv {

inline constexpr int kMaxLloydBits = 8;

struct LloydTable {
  int bits;
  // 2^bits levels in increasing order, antisymmetric: levels[i] = -levels[2^bits - 1 - i]; +infinity behind them.
  float levels[1 << kMaxLloydBits];
  // The level of x is the number of boundaries at or below it: boundaries[i] separates levels i and i + 1. +infinity
  // behind the 2^bits - 1 of them.
  float boundaries[1 << kMaxLloydBits];
  double mse;      // at variance 1
  double entropy;  // bits per index
};

// For the unit Gaussian, bits 1..8. Computed at the first call, then the same object for every thread.
const LloydTable& gaussian_lloyd(int bits);

// For one coordinate of a vector of length sqrt(d), d >= 16: computed at every call (well below a millisecond).
LloydTable sphere_lloyd(int bits, int d);

}  // namespace kvasir::kv
