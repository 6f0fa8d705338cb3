#include "kv/families/lloyd.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.hpp"

namespace kvasir::kv {

namespace {

// Even densities, up to a factor; beyond `reach` nothing of weight is left.
struct Density {
  int d;  // 0: Gaussian
  double reach;

  explicit Density(int dimension) : d(dimension), reach(d ? std::min(std::sqrt(static_cast<double>(d)), 14.0) : 14.0) {}

  double operator()(double x) const {
    if (!d) return std::exp(-0.5 * x * x);
    const double rest = 1 - x * x / d;
    return rest > 0 ? std::exp(0.5 * (d - 3) * std::log(rest)) : 0;
  }
};

struct Cell {
  double mass, mean, spread;  // integrals of p, x p / mass, (x - mean)^2 p
};

// Gauss-Legendre, 8 points per piece of at most 1/4: exact to about 1e-15 for these densities.
Cell integrate(const Density& p, double from, double to) {
  constexpr std::array<double, 4> kNodes = {0.1834346424956498049, 0.5255324099163289858, 0.7966664774136267396,
                                            0.9602898564975362317};
  constexpr std::array<double, 4> kWeights = {0.3626837833783619830, 0.3137066458778872873, 0.2223810344533744706,
                                              0.1012285362903762592};
  const int pieces = std::max(1, static_cast<int>(std::ceil((to - from) * 4)));
  const double half = (to - from) / (2 * pieces);
  // Moments about the middle of the cell: those about 0 would cancel in narrow cells.
  const double centre = 0.5 * (from + to);
  double mass = 0, first = 0, second = 0;
  for (int i = 0; i < pieces; ++i) {
    const double middle = from + (2 * i + 1) * half;
    for (std::size_t k = 0; k < kNodes.size(); ++k)
      for (const double x : {middle - half * kNodes[k], middle + half * kNodes[k]}) {
        const double w = kWeights[k] * half * p(x);
        mass += w;
        first += w * (x - centre);
        second += w * (x - centre) * (x - centre);
      }
  }
  const double shift = first / mass;
  return {mass, centre + shift, second - first * shift};
}

// The positive half: levels c[0..n), cell i between the midpoints around c[i], from 0 to `reach`.
double lower(const std::vector<double>& c, std::size_t i) { return i == 0 ? 0 : 0.5 * (c[i - 1] + c[i]); }
double upper(const std::vector<double>& c, std::size_t i, const Density& p) {
  return i + 1 == c.size() ? p.reach : 0.5 * (c[i] + c[i + 1]);
}

// One step of Newton's method on c[i] = mean of cell i. A boundary b moves a cell's mean by p(b) |b - mean| / mass, so
// the Jacobian is tridiagonal, and for log-concave densities dominated by its diagonal. Returns the largest change.
double newton(const Density& p, std::vector<double>& c) {
  const std::size_t n = c.size();
  std::vector<double> above(n), residual(n);  // of the eliminated system
  for (std::size_t i = 0; i < n; ++i) {
    const double a = lower(c, i), b = upper(c, i, p);
    const Cell cell = integrate(p, a, b);
    const double left = i == 0 ? 0 : -0.5 * p(a) * (cell.mean - a) / cell.mass;
    const double right = i + 1 == n ? 0 : -0.5 * p(b) * (b - cell.mean) / cell.mass;
    double diagonal = 1 + left + right, r = cell.mean - c[i];
    if (i > 0) {
      diagonal -= left * above[i - 1];
      r -= left * residual[i - 1];
    }
    above[i] = right / diagonal;
    residual[i] = r / diagonal;
  }
  double largest = 0;
  for (std::size_t i = n; i-- > 0;) {
    if (i + 1 < n) residual[i] -= above[i] * residual[i + 1];
    largest = std::max(largest, std::abs(residual[i]));
  }
  // Levels stay in order, positive and in reach: a step that would break that is shortened.
  for (double step = 1;; step *= 0.5) {
    KVASIR_CHECK(step > 1e-6);
    double last = 0;
    bool fine = true;
    for (std::size_t i = 0; i < n; ++i) {
      const double x = c[i] + step * residual[i];
      fine = fine && x > last && x < p.reach;
      last = x;
    }
    if (!fine) continue;
    for (std::size_t i = 0; i < n; ++i) c[i] += step * residual[i];
    return largest;
  }
}

// Levels where the density p^(1/3), which is optimal for many levels (Panter and Dite 1951), has its quantiles.
std::vector<double> start(const Density& p, std::size_t n) {
  constexpr int kSteps = 2000;
  std::vector<double> sum(kSteps + 1, 0.0);
  const double dx = p.reach / kSteps;
  for (std::size_t i = 0; i < kSteps; ++i) sum[i + 1] = sum[i] + std::cbrt(p((static_cast<double>(i) + 0.5) * dx));
  std::vector<double> c(n);
  std::size_t at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double wanted = sum.back() * (static_cast<double>(i) + 0.5) / static_cast<double>(n);
    while (sum[at + 1] < wanted) ++at;
    c[i] = dx * (static_cast<double>(at) + (wanted - sum[at]) / (sum[at + 1] - sum[at]));
  }
  return c;
}

LloydTable solve(const Density& p, int bits) {
  KVASIR_CHECK(bits >= 1 && bits <= kMaxLloydBits);
  const std::size_t n = std::size_t{1} << (bits - 1);
  std::vector<double> c = start(p, n);
  for (int i = 0; newton(p, c) > 1e-12; ++i) KVASIR_CHECK(i < 50);

  LloydTable t{};
  t.bits = bits;
  std::fill(std::begin(t.levels), std::end(t.levels), std::numeric_limits<float>::infinity());
  std::fill(std::begin(t.boundaries), std::end(t.boundaries), std::numeric_limits<float>::infinity());
  double total = 0, error = 0, information = 0;
  for (std::size_t i = 0; i < n; ++i) {
    t.levels[n + i] = static_cast<float>(c[i]);
    t.levels[n - 1 - i] = -t.levels[n + i];
    t.boundaries[n - 1 + i] = static_cast<float>(lower(c, i));
    t.boundaries[n - 1 - i] = -t.boundaries[n - 1 + i];
    const Cell cell = integrate(p, lower(c, i), upper(c, i, p));
    total += cell.mass;
    error += cell.spread + cell.mass * (cell.mean - c[i]) * (cell.mean - c[i]);
    information -= cell.mass * std::log2(cell.mass);
  }
  t.boundaries[n - 1] = 0.0f;
  t.mse = error / total;
  t.entropy = 1 + information / total + std::log2(total);  // 1: the sign
  return t;
}

}  // namespace

const LloydTable& gaussian_lloyd(int bits) {
  KVASIR_CHECK(bits >= 1 && bits <= kMaxLloydBits);
  static const auto tables = [] {
    std::array<LloydTable, kMaxLloydBits> t;
    for (int b = 1; b <= kMaxLloydBits; ++b) t[static_cast<std::size_t>(b - 1)] = solve(Density(0), b);
    return t;
  }();
  return tables[static_cast<std::size_t>(bits - 1)];
}

LloydTable sphere_lloyd(int bits, int d) {
  KVASIR_CHECK(d >= 16);
  return solve(Density(d), bits);
}

}  // namespace kvasir::kv
