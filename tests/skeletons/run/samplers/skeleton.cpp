// A stage of the sampling chain: copy to src/run/samplers/NAME.cpp and rename `skeleton` to NAME. Contract:
// run/sampler.hpp.
#include "run/sampler.hpp"

namespace kvasir::run::samplers_skeleton {

const Sampler entry{.order = 0,
                    .help = "a stage that is never active",
                    .active = [](const SamplingOptions&) { return false; },
                    .changes_best = false,
                    .apply = [](const SamplingOptions&, const History&, Candidates&) {}};

}  // namespace kvasir::run::samplers_skeleton
