#include "lab/eval/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "run/softmax.hpp"

namespace kvasir::lab::eval {
namespace {

double decibel(double signal, double error) {
  if (error > 0) return 10 * std::log10(signal / error);
  return signal > 0 ? std::numeric_limits<double>::infinity() : 0;
}

}  // namespace

double Moments::standard_error() const { return count_ > 1 ? std::sqrt(variance() / static_cast<double>(count_)) : 0; }

double log_sum_exp(std::span<const float> logits) {
  const double max = run::largest(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - max);
  return max + std::log(sum);
}

double kl_divergence(std::span<const float> p, double p_sum, std::span<const float> q, double q_sum) {
  KVASIR_CHECK(p.size() == q.size());
  // sum p (ln p - ln q), with the part of the partitions outside the sum
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (p[i] != q[i]) sum += std::exp(p[i] - p_sum) * (static_cast<double>(p[i]) - q[i]);
  return std::max(0.0, sum - (p_sum - q_sum));  // rounding alone can be negative
}

std::size_t argmax(std::span<const float> x) {
  return static_cast<std::size_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

double percentile(std::span<float> values, double p) {
  if (values.empty()) return 0;
  const auto n = static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(std::clamp(std::ceil(p * n), 1.0, n));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

double binomial_tail(std::int64_t trials, std::int64_t hits, double chance) {
  double sum = 0;
  const auto n = static_cast<double>(trials);
  for (std::int64_t i = hits; i <= trials; ++i) {
    const auto k = static_cast<double>(i);
    const double choose = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
    const double hit = i > 0 ? k * std::log(chance) : 0;
    const double miss = i < trials ? (n - k) * std::log1p(-chance) : 0;
    sum += std::exp(choose + hit + miss);
  }
  return std::min(1.0, sum);
}

Skill skill_of(std::int64_t trials, std::int64_t hits, double chance) {
  if (binomial_tail(trials, hits, chance) < 0.01) return Skill::kSome;
  return 1 - binomial_tail(trials, hits + 1, 0.5 * (1 + chance)) < 0.05 ? Skill::kNone : Skill::kUnknown;
}

Distortion::Distortion(int d)
    : x_(static_cast<std::size_t>(d)),
      xx_(static_cast<std::size_t>(d)),
      e_(static_cast<std::size_t>(d)),
      ee_(static_cast<std::size_t>(d)) {}

void Distortion::add(const float* x, const float* y) {
  ++rows_;
  for (std::size_t c = 0; c < x_.size(); ++c) {
    const double a = x[c], e = a - y[c];
    x_[c] += a;
    xx_[c] += a * a;
    e_[c] += e;
    ee_[c] += e * e;
  }
}

Distortion::Energy Distortion::energy() const {
  Energy t;
  const auto n = static_cast<double>(std::max<std::int64_t>(rows_, 1));
  for (std::size_t c = 0; c < x_.size(); ++c) {
    t.signal += xx_[c];
    t.error += ee_[c];
    t.centred_signal += std::max(0.0, xx_[c] - x_[c] * x_[c] / n);
    t.centred_error += std::max(0.0, ee_[c] - e_[c] * e_[c] / n);
  }
  return t;
}

Distortion::Energy& Distortion::Energy::operator+=(const Energy& o) {
  signal += o.signal;
  error += o.error;
  centred_signal += o.centred_signal;
  centred_error += o.centred_error;
  return *this;
}

double Distortion::Energy::db() const { return decibel(signal, error); }
double Distortion::Energy::centred_db() const { return decibel(centred_signal, centred_error); }
double Distortion::db() const { return energy().db(); }
double Distortion::centred_db() const { return energy().centred_db(); }

}  // namespace kvasir::lab::eval
