#include "weights/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace kvasir::weights {
namespace {

constexpr std::size_t kPart = 16;  // no type has scales for fewer elements
// Of a part's range. A narrower one cuts the extremes off and rounds the others more finely.
constexpr float kFactors[] = {1.0f,  0.98f, 0.96f, 0.94f, 0.92f, 0.9f,  0.88f, 0.86f, 0.84f,
                              0.82f, 0.8f,  0.76f, 0.72f, 0.68f, 1.02f, 1.04f, 1.06f, 1.08f};
constexpr std::size_t kTried = std::size(kFactors);

// x with its extremes moved to `factor` times where they were, and nothing beyond them.
void change_range(const float* x, std::size_t n, float factor, float* out) {
  const auto [low, high] = std::minmax_element(x, x + n);
  const float from = factor * *low, to = factor * *high;
  for (std::size_t i = 0; i < n; ++i) {
    const bool extreme = x + i == low || x + i == high;
    out[i] = extreme ? factor * x[i] : *low < 0 && x[i] < from ? from : *high > 0 && x[i] > to ? to : x[i];
  }
}

}  // namespace

Fitter::Fitter(const Quant& quant)
    : quant_(quant),
      size_(static_cast<std::size_t>(quant.block)),
      parts_((size_ + kPart - 1) / kPart),
      weight_(size_),
      factor_(parts_),
      tried_(size_),
      back_(size_),
      error_(parts_),
      errors_(kTried * parts_),
      bytes_(static_cast<std::size_t>(quant.block_bytes)) {}

void Fitter::round(const float* x, const float* importance, std::byte* out, std::int64_t n) {
  if (quant_.block == 1) return quant_.quantise(x, out, n);
  for (std::int64_t i = 0; i < n; i += quant_.block, out += quant_.block_bytes)
    block(x + i, importance ? importance + i : nullptr, out);
}

// The same factor for all parts, each of them; then every part with the one that was best for it, in parts of two
// sizes, because types differ in how many elements have a scale.
void Fitter::block(const float* x, const float* importance, std::byte* out) {
  double square = 0;
  for (std::size_t i = 0; i < size_; ++i) square += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const auto mean = static_cast<float>(square / static_cast<double>(size_));
  for (std::size_t i = 0; i < size_; ++i)
    weight_[i] = importance ? importance[i] * std::sqrt(mean + x[i] * x[i]) : 1.0f;

  least_ = std::numeric_limits<double>::infinity();
  for (std::size_t f = 0; f < kTried; ++f) {
    std::fill(factor_.begin(), factor_.end(), kFactors[f]);
    keep_if_better(attempt(x), out);
    std::copy(error_.begin(), error_.end(), errors_.begin() + static_cast<std::ptrdiff_t>(f * parts_));
  }
  for (const std::size_t together : {std::size_t{1}, std::size_t{2}}) {
    if (parts_ <= together) continue;
    for (std::size_t p = 0; p < parts_; p += together) {
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t f = 0; f < kTried; ++f) {
        double error = 0;
        for (std::size_t i = p; i < p + together; ++i) error += errors_[f * parts_ + i];
        if (error >= best) continue;
        best = error;
        std::fill_n(factor_.begin() + static_cast<std::ptrdiff_t>(p), together, kFactors[f]);
      }
    }
    keep_if_better(attempt(x), out);
  }
}

double Fitter::attempt(const float* x) {
  for (std::size_t p = 0; p < parts_; ++p) {
    const std::size_t n = std::min(kPart, size_ - p * kPart);
    change_range(x + p * kPart, n, factor_[p], tried_.data() + p * kPart);
  }
  quant_.quantise(tried_.data(), bytes_.data(), quant_.block);
  quant_.dequantise(bytes_.data(), back_.data(), quant_.block);
  double sum = 0;
  for (std::size_t p = 0; p < parts_; ++p) {
    double error = 0;
    for (std::size_t i = p * kPart; i < std::min(size_, (p + 1) * kPart); ++i) {
      const float off = back_[i] - x[i];
      error += static_cast<double>(weight_[i] * off * off);
    }
    sum += error_[p] = error;
  }
  return sum;
}

void Fitter::keep_if_better(double error, std::byte* out) {
  if (!(error < least_) && least_ != std::numeric_limits<double>::infinity()) return;
  least_ = error;
  std::copy(bytes_.begin(), bytes_.end(), out);
}

}  // namespace kvasir::weights
