// Nucleus sampling (Holtzman et al. 2020, section 3.1): keeps the shortest run of most probable tokens whose
// probabilities, relative to what earlier stages left, sum to at least p.
#include "run/sampler.hpp"

namespace kvasir::run::samplers_top_p {

const Sampler entry = {
    .order = 110,
    .help = "keep the most probable tokens up to a total probability",
    .active = [](const SamplingOptions& o) { return o.top_p < 1; },
    .changes_best = false,
    .apply = [](const SamplingOptions& o, const History&, Candidates& c) { c.keep_mass(o.top_p); },
};

}  // namespace kvasir::run::samplers_top_p
