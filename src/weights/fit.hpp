// Rounding with care, for files that are made once and read often. The `quantise` of a weight type takes its scales
// from the range of the numbers. This tries other ranges for every part of a block, and keeps what loses least.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weights/quant.hpp"

namespace kvasir::weights {

// Rounds rows of one type, for one thread.
class Fitter {
 public:
  explicit Fitter(const Quant& quant);

  // n floats, whole blocks, to the type's bytes. What is made small is the sum of squared errors, each weighted by
  // importance * sqrt(mean square of the block + x^2) where there are importances (n numbers of at least 0):
  // activations are large where weights are more often than their mean squares by column say.
  void round(const float* x, const float* importance, std::byte* out, std::int64_t n);

 private:
  void block(const float* x, const float* importance, std::byte* out);
  double attempt(const float* x);
  void keep_if_better(double error, std::byte* out);

  const Quant& quant_;
  std::size_t size_, parts_;      // elements of a block; parts that have a range of their own each
  std::vector<float> weight_;     // (size)
  std::vector<float> factor_;     // (parts), of a part's range, in the next attempt
  std::vector<float> tried_;      // (size): the block with these ranges
  std::vector<float> back_;       // (size): what it was rounded to
  std::vector<double> error_;     // (parts), of the last attempt
  std::vector<double> errors_;    // (factors, parts)
  std::vector<std::byte> bytes_;  // of the last attempt
  double least_ = 0;              // error of what is kept
};

}  // namespace kvasir::weights
