// For tests: numbers of a standard normal distribution that only `seed` decides.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace kvasir {

inline std::vector<float> gaussian(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& v : x) v = normal(random);
  return x;
}

}  // namespace kvasir
