// The random numbers of sampling: counter based, so that a draw depends on (seed, number of the draw) alone and has the
// same value on every platform. The standard library's distributions promise no such thing.
#pragma once

#include <cstdint>

#include "base/splitmix.hpp"

namespace kvasir::run {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return splitmix64(state_); }

  // Uniform in [0, 1): the 53 bits that a double holds.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace kvasir::run
