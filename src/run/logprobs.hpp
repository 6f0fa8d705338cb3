// Log-probabilities of the model's own distribution: softmax of the raw logits, before any sampling stage, as the
// OpenAI API returns them. Call before SamplerChain::sample, which spoils the logits.
#pragma once

#include <cstdint>
#include <span>

namespace kvasir::run {

struct TokenLogprob {
  std::int32_t id = -1;
  float logprob = 0;  // natural logarithm, <= 0; -inf for a logit of -inf or NaN
};

// ln(sum of exp(logits)): logits[id] - this is the log-probability of id. Stable: the largest is taken out first, sums
// are f64; absolute error < 1e-6 + what f32 logits of this size resolve. NaN counts as -inf. -inf when there is
// nothing, +inf when a logit is.
double log_partition(std::span<const float> logits);

// Log-probability of `id`, given the partition of its logits; +inf logits share the probability of 1 as limit: 0 for
// them. REQUIRES: id is an index of logits.
float logprob_of(std::span<const float> logits, std::int32_t id, double partition);

// Fills `best` with the best.size() most probable tokens, most probable first, lower id first among equals; returns how
// many there are (fewer when the vocabulary has fewer that are neither NaN nor -inf). Does not allocate. O(vocab + k
// log k log vocab) for usual inputs, O(vocab log k) at worst.
std::size_t top_logprobs(std::span<const float> logits, double partition, std::span<TokenLogprob> best);

}  // namespace kvasir::run
