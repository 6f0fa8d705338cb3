// Lloyd-Max levels as small integers, so that products with them are integer dot products.
//
// A quantiser's scale is stored per vector anyway, so its levels matter up to a factor: the levels are those integers
// plus one half, largest (M - 1) / 2 at most, whose multiples by some step have the least mean squared error on the
// unit Gaussian. Against real levels that costs 0.001 dB at 2 bits (M = 31), 0.04 at 3 (31), 0.04 at 4 (63), 0.15 at 5
// (127).
#pragma once

#include <cstdint>

namespace kvasir::kv {

struct IntegerLevels {
  int bits;
  float offset;             // level of code i is values[i] - offset
  std::uint8_t values[32];  // increasing, values[i] + values[n - 1 - i] = 2 offset
  float magnitudes[16];     // positive levels, n / 2 of them
  float steps[16];          // magnitudes[i + 1] - magnitudes[i]
  float boundaries[16];     // between magnitudes i and i + 1, in units of the vector's root mean square
  double mse;               // at variance 1, with the best step
};

// Largest table entry for 2 to 5 bits: as small as quality allows, because without VNNI small entries multiply faster.
constexpr int integer_levels_largest(int bits) { return bits <= 3 ? 31 : bits == 4 ? 63 : 127; }

// bits 2..5. Computed at the first call.
const IntegerLevels& integer_levels(int bits);

}  // namespace kvasir::kv
