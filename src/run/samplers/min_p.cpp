// Keeps the tokens with at least min_p times the probability of the best one (Nguyen et al. 2024, section 3):
// p >= min_p * p_max is logit >= logit_max + ln(min_p), which needs no softmax.
#include <cmath>

#include "run/sampler.hpp"

namespace kvasir::run::samplers_min_p {
namespace {

void apply(const SamplingOptions& o, const History&, Candidates& candidates) {
  candidates.keep_from(candidates.best().logit + std::log(static_cast<double>(o.min_p)));
}

}  // namespace

const Sampler entry = {
    .order = 120,
    .help = "keep tokens with at least this fraction of the best token's probability",
    .active = [](const SamplingOptions& o) { return o.min_p > 0; },
    .changes_best = false,
    .apply = apply,
};

}  // namespace kvasir::run::samplers_min_p
