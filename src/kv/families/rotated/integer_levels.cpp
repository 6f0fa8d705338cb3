#include "kv/families/rotated/integer_levels.hpp"

#include <array>
#include <cmath>
#include <numbers>

#include "base/check.hpp"
#include "kv/families/lloyd.hpp"

namespace kvasir::kv {
namespace {

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double below(double x) { return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)); }

// Mean squared error of n positive levels, and their negatives, on the unit Gaussian.
double error_of(const double* levels, int n) {
  double sum = 0;
  double low = 0;
  for (int i = 0; i < n; ++i) {
    const double high = i + 1 < n ? (levels[i] + levels[i + 1]) / 2 : 40.0;
    const double mass = below(high) - below(low);
    const double first = density(low) - density(high);
    const double second = mass + low * density(low) - high * density(high);
    sum += second - 2 * levels[i] * first + levels[i] * levels[i] * mass;
    low = high;
  }
  return 2 * sum;
}

IntegerLevels make(int bits) {
  const int n = 1 << (bits - 1);
  const LloydTable& table = gaussian_lloyd(bits);
  const double most = integer_levels_largest(bits) / 2.0;
  const double outer = static_cast<double>(table.levels[2 * n - 1]);
  IntegerLevels best{};
  best.mse = 1;
  constexpr int kTries = 2000;  // steps from the finest that fits to 2.5 times that
  for (int t = 0; t < kTries; ++t) {
    const double step = outer / most * (0.98 + 1.5 * t / kTries);
    std::array<double, 16> levels{};
    double previous = 0;
    bool fits = true;
    for (int i = 0; i < n; ++i) {
      const double k = std::floor(static_cast<double>(table.levels[n + i]) / step) + 0.5;
      fits = fits && k > previous && k <= most;
      previous = k;
      levels[static_cast<std::size_t>(i)] = k * step;
    }
    if (!fits) continue;
    const double mse = error_of(levels.data(), n);
    if (mse >= best.mse) continue;
    best.mse = mse;
    for (int i = 0; i < n; ++i) {
      best.magnitudes[i] = static_cast<float>(std::lround(levels[static_cast<std::size_t>(i)] / step - 0.5)) + 0.5f;
      if (i + 1 < n)
        best.boundaries[i] =
            static_cast<float>((levels[static_cast<std::size_t>(i)] + levels[static_cast<std::size_t>(i) + 1]) / 2);
    }
  }
  KVASIR_CHECK(best.mse < 1);
  best.bits = bits;
  best.offset = best.magnitudes[n - 1];
  for (int i = 0; i < n; ++i) {
    best.values[n + i] = static_cast<std::uint8_t>(best.offset + best.magnitudes[i]);
    best.values[n - 1 - i] = static_cast<std::uint8_t>(best.offset - best.magnitudes[i]);
    if (i + 1 < n) best.steps[i] = best.magnitudes[i + 1] - best.magnitudes[i];
  }
  return best;
}

}  // namespace

const IntegerLevels& integer_levels(int bits) {
  KVASIR_CHECK(bits >= 2 && bits <= 5);
  static const std::array<IntegerLevels, 4> tables = {make(2), make(3), make(4), make(5)};
  return tables[static_cast<std::size_t>(bits - 2)];
}

}  // namespace kvasir::kv
