#include "run/guess_draw.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "run/logprobs.hpp"

namespace kvasir::run {
namespace {

constexpr double kGuessTrust = 0.6;  // that guesses are right before some were checked

SamplingOptions seeded(const Answer& answer) {
  SamplingOptions options = answer.sampling();
  options.seed = answer.seed();
  return options;
}

// From 0 to 7, by the drafter's own probability.
int sureness_of(double p) {
  constexpr double kBounds[] = {0.2, 0.4, 0.6, 0.75, 0.87, 0.95, 0.99};
  int s = 0;
  while (s < kSureness - 1 && p >= kBounds[s]) ++s;
  return s;
}

}  // namespace

GuessDraw::GuessDraw(const Answer& answer, std::int32_t vocab, std::int32_t known)
    : chain_(seeded(answer), vocab), known_(known) {}

void GuessDraw::begin(const Round& round) {
  chain_.follow(round.answer->sampler());
  ahead_ = round.answer->ahead();
  chance_ = 1;
}

void GuessDraw::add(Round& round, std::span<const float> row, std::span<float> room) {
  std::fill(room.begin(), room.end(), -std::numeric_limits<float>::infinity());
  std::copy_n(row.begin(), known_, room.begin());
  round.answer->mask(ahead_, room);
  const double partition = log_partition(row);
  const Sampled drawn = chain_.sample(room);
  if (drawn.id < 0) return void(chance_ = 0);
  chain_.accept(drawn.id);
  // How sure the model is says its own distribution, and beside it the one that was drawn from.
  const int sureness = sureness_of(
      std::exp(std::max(logprob_of(row, drawn.id, partition), chain_.survivors().empty() ? -100.0f : drawn.logprob)));
  round.guesses->push_back({drawn.id, sureness});
  chance_ *= round.acceptance->chance(sureness);
  if (!round.answer->follow(ahead_, drawn.id) || ahead_.over) chance_ = 0;
}

bool GuessDraw::goes_on(const Round& round, int made) const {
  return made < round.most && chance_ > 0 && chance_ * round.acceptance->mean(kGuessTrust) >= round.worth;
}

}  // namespace kvasir::run
