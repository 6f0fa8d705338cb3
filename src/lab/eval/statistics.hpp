// The statistics of an evaluation: divergence of two next-token distributions, paired differences, percentiles,
// signal-to-noise, regression of an estimator. All sums are double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvasir::lab::eval {

// Mean and variance of a stream (Welford, Technometrics 4, 1962).
class Moments {
 public:
  void add(double x) {
    ++count_;
    const double d = x - mean_;
    mean_ += d / static_cast<double>(count_);
    squares_ += d * (x - mean_);
  }
  std::int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double variance() const { return count_ > 1 ? squares_ / static_cast<double>(count_ - 1) : 0; }  // unbiased
  // Of the mean, for independent items. Scores of neighbouring tokens are positively correlated a little, so this is a
  // lower bound there.
  double standard_error() const;

 private:
  std::int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;
};

// ln(sum of exp(x)) with double exponentials: run/logprobs.hpp is faster, but its 1e-7 is as large as the divergences
// of good codecs.
double log_sum_exp(std::span<const float> logits);

// KL(p || q) in nats of the softmax distributions of two rows of logits, given their log_sum_exp: exactly 0 for equal
// rows, never below 0. REQUIRES: equal sizes, finite logits.
double kl_divergence(std::span<const float> p, double p_sum, std::span<const float> q, double q_sum);

// Index of the largest, the lowest among equals.
std::size_t argmax(std::span<const float> x);

// Nearest-rank percentile: the smallest value that at least fraction `p` of all do not exceed; 0 of nothing. Reorders.
double percentile(std::span<float> values, double p);

// P(X >= hits) for X binomial(trials, chance): how likely guessing does as well.
double binomial_tail(std::int64_t trials, std::int64_t hits, double chance);

// What hits among questions with several answers say of a model. kNone: as few are unlikely (below 5 %) for a model
// that is right halfway between guessing and always. kUnknown: neither that, nor more than guessing gives once in a
// hundred times.
enum class Skill { kSome, kNone, kUnknown };
Skill skill_of(std::int64_t trials, std::int64_t hits, double chance);

// How far an approximation y of x is off, over any number of rows of d channels.
class Distortion {
 public:
  explicit Distortion(int d);
  // `x`, `y`: one row of d channels.
  void add(const float* x, const float* y);
  // 10 log10(|x|^2 / |x - y|^2); infinite when equal.
  double db() const;
  // The same with error and signal stripped of their mean over the rows of each channel: a constant shift of all keys
  // moves every score by the same amount, and softmax does not see it.
  double centred_db() const;

  // Sums of squares, to add up over heads and layers.
  struct Energy {
    double signal = 0, error = 0, centred_signal = 0, centred_error = 0;
    Energy& operator+=(const Energy& o);
    double db() const;
    double centred_db() const;
  };
  Energy energy() const;

 private:
  std::int64_t rows_ = 0;
  std::vector<double> x_, xx_, e_, ee_;  // per channel: sums of x, x^2, error, error^2
};

// Least-squares fit of y = slope * x through the origin, and the error of y as an estimate of x.
class Regression {
 public:
  void add(double x, double y) {
    xx_ += x * x;
    xy_ += x * y;
    ee_ += (x - y) * (x - y);
  }
  Regression& operator+=(const Regression& o) {
    xx_ += o.xx_;
    xy_ += o.xy_;
    ee_ += o.ee_;
    return *this;
  }
  double slope() const { return xx_ > 0 ? xy_ / xx_ : 0; }           // 1: unbiased
  double relative_error() const { return xx_ > 0 ? ee_ / xx_ : 0; }  // sum (x - y)^2 / sum x^2

 private:
  double xx_ = 0, xy_ = 0, ee_ = 0;
};

}  // namespace kvasir::lab::eval
