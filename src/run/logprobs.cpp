#include "run/logprobs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "run/softmax.hpp"

namespace kvasir::run {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

bool is_likelier(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id);
}

}  // namespace

double log_partition(std::span<const float> logits) {
  const float max = largest(logits);
  if (max == kInf || max == -kInf) return max;
  return max + std::log(sum_of_exp(logits, max));
}

float logprob_of(std::span<const float> logits, std::int32_t id, double partition) {
  KVASIR_CHECK(id >= 0 && static_cast<std::size_t>(id) < logits.size());
  const float logit = logits[static_cast<std::size_t>(id)];
  if (!(logit > -kInf)) return -kInf;
  if (logit == kInf) return 0;
  return static_cast<float>(logit - partition);
}

std::size_t top_logprobs(std::span<const float> logits, double partition, std::span<TokenLogprob> best) {
  if (best.empty()) return 0;
  // A heap of the best so far, worst on top; holds logits until the end.
  std::size_t size = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const TokenLogprob token{static_cast<std::int32_t>(i), logits[i]};
    if (size == best.size()) {
      if (!(token.logprob > best[0].logprob)) continue;  // equal: the earlier id ranks first
      std::pop_heap(best.begin(), best.end(), is_likelier);
      best[size - 1] = token;
    } else {
      if (!(token.logprob > -kInf)) continue;
      best[size++] = token;
    }
    std::push_heap(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(size), is_likelier);
  }
  const auto found = best.first(size);
  std::sort_heap(found.begin(), found.end(), is_likelier);
  for (TokenLogprob& token : found) token.logprob = logprob_of(logits, token.id, partition);
  return size;
}

}  // namespace kvasir::run
