#include "run/draft_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "run/logprobs.hpp"

namespace kvasir::run {
namespace {

constexpr double kDraftTrust = 0.6;  // that draft tokens are right before some were checked

SamplingOptions seeded(const Answer& answer) {
  SamplingOptions options = answer.sampling();
  options.seed = answer.seed();
  return options;
}

// From 0 to 7, by the drafter's own probability.
int confidence_of(double p) {
  constexpr double kBounds[] = {0.2, 0.4, 0.6, 0.75, 0.87, 0.95, 0.99};
  int s = 0;
  while (s < kConfidence - 1 && p >= kBounds[s]) ++s;
  return s;
}

}  // namespace

DraftSampler::DraftSampler(const Answer& answer, std::int32_t vocab, std::int32_t known)
    : chain_(seeded(answer), vocab), known_(known) {}

void DraftSampler::begin(const Round& round) {
  chain_.follow(round.answer->sampler());
  ahead_ = round.answer->ahead();
  chance_ = 1;
}

void DraftSampler::add(Round& round, std::span<const float> row, std::span<float> room) {
  std::fill(room.begin(), room.end(), -std::numeric_limits<float>::infinity());
  std::copy_n(row.begin(), known_, room.begin());
  round.answer->mask(ahead_, room);
  const double partition = log_partition(row);
  const Sampled drawn = chain_.sample(room);
  if (drawn.id < 0) return void(chance_ = 0);
  chain_.accept(drawn.id);
  // How sure the model is says its own distribution, and beside it the one that was drawn from.
  const int confidence = confidence_of(
      std::exp(std::max(logprob_of(row, drawn.id, partition), chain_.survivors().empty() ? -100.0f : drawn.logprob)));
  round.draft_tokens->push_back({drawn.id, confidence});
  chance_ *= round.acceptance->chance(confidence);
  if (!round.answer->follow(ahead_, drawn.id) || ahead_.over) chance_ = 0;
}

bool DraftSampler::goes_on(const Round& round, int made) const {
  return made < round.most && chance_ > 0 && chance_ * round.acceptance->mean(kDraftTrust) >= round.worth;
}

}  // namespace kvasir::run
