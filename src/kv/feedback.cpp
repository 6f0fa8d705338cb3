#include "kv/feedback.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kv/options.hpp"

namespace kvasir::kv {
namespace {

double mean_diagonal(int d, const double* h) {
  double sum = 0;
  for (int c = 0; c < d; ++c) sum += h[static_cast<std::ptrdiff_t>(c) * d + c];
  return sum / d;
}

// V of the damped matrix with a mean diagonal of 1, (d, d), zero below the diagonal. False where there is none.
bool decompose(int d, const double* h, std::vector<double>* v) {
  const double mean = mean_diagonal(d, h);
  if (!(mean > 0) || !std::isfinite(mean)) return false;
  const auto n = static_cast<std::size_t>(d);
  v->assign(n * n, 0);
  for (std::size_t j = n; j-- > 0;) {
    double* const row_j = v->data() + j * n;
    for (std::size_t i = 0; i <= j; ++i) {
      double* const row_i = v->data() + i * n;
      double left = h[i * n + j] / mean + (i == j ? kMetricDamping : 0);
      for (std::size_t k = j + 1; k < n; ++k) left -= row_i[k] * row_j[k];
      row_i[j] = left;
    }
    if (!(row_j[j] > kMetricDamping / 2)) return false;  // no matrix of second moments
    const double root = std::sqrt(row_j[j]);
    for (std::size_t i = 0; i < j; ++i) (*v)[i * n + j] /= root;
    row_j[j] = root;
  }
  return true;
}

}  // namespace

void make_feedback(int d, const double* h, float* to) {
  const auto n = static_cast<std::size_t>(d);
  std::fill_n(to, n, 1.0f);
  std::fill_n(to + n, feedback_floats(d) - n, 0.0f);
  std::vector<double> v;
  if (!decompose(d, h, &v)) return;
  float* row = to + n;
  for (std::size_t j = 0; j < n; ++j) {
    const double own = v[j * n + j];
    to[j] = static_cast<float>(own * own);
    for (std::size_t i = 0; i < j; ++i) *row++ = static_cast<float>(v[i * n + j] / own);
  }
}

double fed_back_noise(int d, const double* h) {
  const auto n = static_cast<std::size_t>(d);
  std::vector<double> v;
  if (!decompose(d, h, &v)) return 0;
  double logs = 0;
  for (std::size_t j = 0; j < n; ++j) logs += 2 * std::log(v[j * n + j]);
  return mean_diagonal(d, h) * std::exp(logs / d);
}

std::vector<float> query_moments(const LayerShape& shape, int n, int skip, const float* q) {
  KVASIR_CHECK(skip < n);
  const auto d = static_cast<std::size_t>(shape.head_dim);
  const auto group = static_cast<std::size_t>(shape.group());
  const auto query = [&](int t, std::size_t head) {
    return q + (static_cast<std::size_t>(t) * static_cast<std::size_t>(shape.query_heads) + head) * d;
  };
  std::vector<float> all;
  std::vector<double> energies(group);
  std::vector<double> sums(d * d);
  for (std::size_t h = 0; h < static_cast<std::size_t>(shape.kv_heads); ++h) {
    std::fill(sums.begin(), sums.end(), 0);
    std::fill(energies.begin(), energies.end(), 0);
    double mean = 0;
    for (std::size_t g = 0; g < group; ++g) {
      for (int t = skip; t < n; ++t)
        for (std::size_t i = 0; i < d; ++i) energies[g] += std::pow(static_cast<double>(query(t, h * group + g)[i]), 2);
      mean += energies[g] / static_cast<double>(group);
    }
    for (int t = skip; t < n; ++t)
      for (std::size_t g = 0; g < group; ++g) {
        if (!(energies[g] > 0)) continue;
        const float* const x = query(t, h * group + g);
        const double weight = mean / energies[g];
        for (std::size_t i = 0; i < d; ++i) {
          const double xi = weight * static_cast<double>(x[i]);
          double* const row = sums.data() + i * d;
          for (std::size_t j = 0; j <= i; ++j) row[j] += xi * static_cast<double>(x[j]);
        }
      }
    const double queries = static_cast<double>(n - skip) * static_cast<double>(group);
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j < d; ++j)
        all.push_back(static_cast<float>(sums[std::max(i, j) * d + std::min(i, j)] / queries));
  }
  return all;
}

}  // namespace kvasir::kv
