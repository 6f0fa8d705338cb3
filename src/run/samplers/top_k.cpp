// Keeps the k most probable tokens (Fan et al. 2018, section 5.4); among equals those with the lower ids.
#include "run/sampler.hpp"

namespace kvasir::run::samplers_top_k {

const Sampler entry = {
    .order = 100,
    .help = "keep the k most probable tokens",
    .active = [](const SamplingOptions& o) { return o.top_k > 0; },
    .changes_best = false,
    .apply = [](const SamplingOptions& o, const History&, Candidates& c) { c.keep_best(o.top_k); },
};

}  // namespace kvasir::run::samplers_top_k
