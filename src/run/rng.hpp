// The random numbers of sampling: counter based, so that a draw depends on (seed, number of the draw) alone and has the
// same value on every platform. The standard library's distributions promise no such thing.
#pragma once

#include <cstdint>

namespace kvasir::run {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014): the output function
// applied to seed + n * golden ratio. Passes BigCrush; period 2^64.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, 1): the 53 bits that a double holds.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace kvasir::run
