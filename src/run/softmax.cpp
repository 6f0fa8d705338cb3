#include "run/softmax.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace kvasir::run {

float largest(std::span<const float> x) {
  constexpr std::size_t kLanes = 16;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float lane[kLanes];
  std::fill(lane, lane + kLanes, kLowest);
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
  float best = kLowest;
  for (float v : lane) best = v > best ? v : best;
  for (; i < x.size(); ++i) best = x[i] > best ? x[i] : best;
  return best;
}

double sum_of_exp(std::span<const float> x, float max) {
  constexpr std::size_t kLanes = 8, kBlock = 256;
  double total = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, x.size());
    float lane[kLanes] = {};
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (std::size_t j = 0; j < kLanes; ++j) lane[j] += exp_nonpositive(x[i + j] - max);
    double block = 0;
    for (float v : lane) block += v;
    for (; i < end; ++i) block += exp_nonpositive(x[i] - max);
    total += block;
  }
  return total;
}

}  // namespace kvasir::run
