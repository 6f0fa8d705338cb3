// Divides the logits by the temperature: below 1 sharper, above 1 flatter. The largest logit is subtracted first, so
// that no temperature can overflow: the best becomes 0, the others at most -inf.
#include "run/sampler.hpp"

namespace kvasir::run::samplers_temperature {
namespace {

void apply(const SamplingOptions& o, const History&, Candidates& candidates) {
  const std::span<Candidate> list = candidates.list();
  const float max = candidates.best().logit;
  for (Candidate& c : list) c.logit = (c.logit - max) / o.temperature;
}

}  // namespace

const Sampler entry = {
    .order = 200,
    .help = "sharpen (< 1) or flatten (> 1) the distribution; 0 always takes the best token",
    .active = [](const SamplingOptions& o) { return o.temperature != 1; },
    .changes_best = false,
    .apply = apply,
};

}  // namespace kvasir::run::samplers_temperature
