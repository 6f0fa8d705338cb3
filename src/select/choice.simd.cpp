#include "select/choice.hpp"

#include "kernel/power_of_two.hpp"
#include "simd/vec.hpp"

namespace kvasir::select::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;
using kernel::KVASIR_TARGET::weight_of;

KVASIR_INLINE F32 none() { return set1(-__builtin_inff()); }
// Numbers [i, n) of x; what is no number, and what is behind them, is none.
KVASIR_INLINE F32 numbers(const float* x, std::int64_t i, std::int64_t n) {
  if (i + kLanes <= n) return max(load(x + i), none());
  const int left = n > i ? static_cast<int>(n - i) : 0;
  return max(select_first(left, load_n(x + i, left), none()), none());
}

float largest(const float* x, std::int64_t n) {
  F32 most[2] = {none(), none()};
  for (std::int64_t i = 0; i < n; i += 2 * kLanes) {
    most[0] = max(numbers(x, i, n), most[0]);
    most[1] = max(numbers(x, i + kLanes, n), most[1]);
  }
  return reduce_max(max(most[0], most[1]));
}

// Sums of at most kPart numbers are added up in double.
double powers(const float* x, std::int64_t n, float most, float* to) {
  constexpr std::int64_t kPart = 64 * kLanes;
  double all = 0;
  for (std::int64_t first = 0; first < n; first += kPart) {
    const std::int64_t end = n - first < kPart ? n : first + kPart;
    F32 sum = zero();
    for (std::int64_t i = first; i < end; i += kLanes) {
      const F32 w = weight_of(min(numbers(x, i, n) - set1(most), set1(126.0f)));
      sum = sum + w;
      if (i + kLanes <= n)
        store(to + i, w);
      else
        store_n(to + i, w, static_cast<int>(n - i));
    }
    all += static_cast<double>(reduce_add(sum));
  }
  return all;
}

void add_times(const float* x, std::int64_t n, float factor, float* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, fma(load(x + i), set1(factor), load(to + i)));
  const auto left = static_cast<int>(n - i);
  if (left > 0) store_n(to + i, fma(load_n(x + i, left), set1(factor), load_n(to + i, left)), left);
}

void maxima(const float* x, std::int64_t n, int vectors, float* to) {
  for (std::int64_t i = 0; i < n; i += std::int64_t{vectors} * kLanes, to += kLanes) {
    F32 most = none();
    for (int v = 0; v < vectors; ++v) most = max(numbers(x, i + v * kLanes, n), most);
    store(to, most);
  }
}

std::int64_t count_from(const float* x, std::int64_t n, float least) {
  const F32 limit = set1(least), one = set1(1.0f);
  F32 sum[2] = {zero(), zero()};
  for (std::int64_t i = 0; i < n; i += 2 * kLanes) {
    sum[0] = sum[0] + zero_if_less(numbers(x, i, n), limit, one);
    sum[1] = sum[1] + zero_if_less(numbers(x, i + kLanes, n), limit, one);
  }
  return static_cast<std::int64_t>(reduce_add(sum[0]) + reduce_add(sum[1]));
}

void unit_sums(const float* x, int units, int unit, float* to) {
  for (int i = 0; i < units; ++i, x += unit) {
    if (unit % kLanes == 0) {
      F32 sum = load(x);
      for (int j = kLanes; j < unit; j += kLanes) sum = sum + load(x + j);
      to[i] = reduce_add(sum);
    } else {
      to[i] = 0;
      for (int j = 0; j < unit; ++j) to[i] += x[j];
    }
  }
}

}  // namespace

extern const ChoiceKernels choices_table;
const ChoiceKernels choices_table{largest, powers, add_times, maxima, count_from, unit_sums};

}  // namespace kvasir::select::KVASIR_TARGET
