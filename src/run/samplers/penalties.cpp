// Makes tokens that occurred in the last penalty_last_n tokens (prompt and answer) less likely:
//   l' = (l > 0 ? l / repetition : l * repetition) - count * frequency - presence
// The first is the repetition penalty of CTRL (Keskar et al. 2019, section 4.1, in the sign-aware form that everybody
// uses), the others are those of the OpenAI API, which also subtracts them from the logits.
#include "run/sampler.hpp"

namespace kvasir::run::samplers_penalties {
namespace {

void apply(const SamplingOptions& o, const History& history, Candidates& candidates) {
  const std::span<float> logits = candidates.logits();  // (vocab)
  for (const auto& [id, count] : history.seen()) {
    float& l = logits[static_cast<std::size_t>(id)];
    l = l > 0 ? l / o.repetition_penalty : l * o.repetition_penalty;
    l -= static_cast<float>(count) * o.frequency_penalty + o.presence_penalty;
  }
}

}  // namespace

const Sampler entry = {
    .order = 20,
    .help = "repetition, frequency and presence penalties",
    .active = [](const SamplingOptions& o) { return o.penalises(); },
    .changes_best = true,
    .apply = apply,
};

}  // namespace kvasir::run::samplers_penalties
