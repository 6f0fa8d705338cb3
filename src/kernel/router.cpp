#include "kernel/router.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace kvasir::kernel {
namespace {

constexpr double kLeastSum = 1.0 / 16384;

double largest(const float* x, int n) { return static_cast<double>(*std::max_element(x, x + n)); }

// Which groups a row may choose from, as its score says.
template <class Score>
std::array<bool, kMostGroups> open_groups(const Routing& rule, const Score& score) {
  std::array<bool, kMostGroups> open{};
  double sums[kMostGroups];
  const int size = rule.count / rule.groups;
  for (int g = 0; g < rule.groups; ++g) {
    double first = -std::numeric_limits<double>::infinity(), second = first;
    for (int i = g * size; i < (g + 1) * size; ++i) {
      const double s = score(i);
      if (s > first)
        second = first, first = s;
      else if (s > second)
        second = s;
    }
    sums[g] = rule.group_best == 1 ? first : first + second;
  }
  for (int used = 0; used < rule.groups_used; ++used) {
    int best = -1;
    for (int g = 0; g < rule.groups; ++g)
      if (!open[static_cast<std::size_t>(g)] && (best < 0 || sums[g] > sums[best])) best = g;
    open[static_cast<std::size_t>(best)] = true;
  }
  return open;
}

void mix_two(const Routing& rule, const float* logits, const float* bias, std::int32_t* experts, float* weights) {
  const auto score = [&](int i) {
    return static_cast<double>(logits[i]) + (bias ? static_cast<double>(bias[i]) : 0.0);
  };
  int first = -1;
  for (int turn = 0; turn < 2; ++turn) {
    int best = first == 0 ? 1 : 0;
    for (int i = 0; i < rule.count; ++i)
      if (i != first && score(i) > score(best)) best = i;
    const float top = logits[best];
    double sum = 0;
    for (int i = 0; i < rule.count; ++i)
      if (i != first && !((top - logits[i]) / std::max(std::abs(logits[i]), top) > 2.0f * rule.jitter))
        sum += std::exp(static_cast<double>(logits[i]) - static_cast<double>(top));
    experts[turn] = best;
    weights[turn] = static_cast<float>(1.0 / sum);
    first = best;
  }
  if (experts[0] < experts[1]) return;
  std::swap(experts[0], experts[1]);
  std::swap(weights[0], weights[1]);
}

}  // namespace

void route(const Routing& rule, const float* logits, const float* bias, std::int32_t* experts, float* weights) {
  if (rule.gating == Gating::kSparseMixer) return mix_two(rule, logits, bias, experts, weights);
  const int n = rule.count;
  double top = largest(logits, n);
  const auto power = [&](int i) { return std::exp(static_cast<double>(logits[i]) - top); };
  const auto sigmoid = [&](int i) { return 1.0 / (1.0 + std::exp(-static_cast<double>(logits[i]))); };
  double sum = 1;
  const bool in_groups = rule.groups > 1;
  if (rule.gating == Gating::kSoftmax && (bias || in_groups || !rule.normalise)) {
    sum = 0;
    for (int i = 0; i < n; ++i) sum += power(i);
  }
  const auto gated = [&](int i) { return rule.gating == Gating::kSigmoid ? sigmoid(i) : power(i) / sum; };
  // Gating is monotone: without a bias the order of logits is that of scores.
  const bool by_logits = (!bias && !in_groups) || rule.gating == Gating::kSoftmaxOfChosen;
  const auto score = [&](int i) {
    return (by_logits ? static_cast<double>(logits[i]) : gated(i)) + (bias ? static_cast<double>(bias[i]) : 0.0);
  };

  // The best so far lie in front, best first. NaN is greater than nothing and is not put before others.
  double best[kMostUsed];
  int chosen = 0;
  std::array<bool, kMostGroups> open{};
  if (in_groups) open = open_groups(rule, score);
  const int group_size = n / rule.groups;
  for (int i = 0; i < n; ++i) {
    if (in_groups && !open[static_cast<std::size_t>(i / group_size)]) continue;
    const double s = score(i);
    if (chosen == rule.used && !(s > best[chosen - 1])) continue;
    int at = chosen < rule.used ? chosen++ : chosen - 1;
    for (; at > 0 && s > best[at - 1]; --at) best[at] = best[at - 1], experts[at] = experts[at - 1];
    best[at] = s;
    experts[at] = i;
  }
  std::sort(experts, experts + chosen);

  // A bias may have left the greatest logit out.
  const bool of_chosen = rule.gating == Gating::kSoftmaxOfChosen;
  if (of_chosen) {
    top = static_cast<double>(logits[experts[0]]);
    for (int j = 1; j < chosen; ++j) top = std::max(top, static_cast<double>(logits[experts[j]]));
  }
  double total = 0;
  for (int j = 0; j < chosen; ++j) total += gated(experts[j]);
  const double divisor = of_chosen ? total : rule.normalise ? std::max(total, kLeastSum) : 1.0;
  const double factor = static_cast<double>(rule.scale) / divisor;
  for (int j = 0; j < chosen; ++j) weights[j] = static_cast<float>(gated(experts[j]) * factor);
}

}  // namespace kvasir::kernel
