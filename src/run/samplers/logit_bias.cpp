// Adds a given number to the logits of given tokens; -inf bans a token.
#include "run/sampler.hpp"

namespace kvasir::run::samplers_logit_bias {
namespace {

void apply(const SamplingOptions& options, const History&, Candidates& candidates) {
  const std::span<float> logits = candidates.logits();  // (vocab)
  for (const auto& [id, bias] : options.logit_bias) logits[static_cast<std::size_t>(id)] += bias;
}

}  // namespace

const Sampler entry = {
    .order = 10,
    .help = "add a number to the logits of given tokens",
    .active = [](const SamplingOptions& o) { return !o.logit_bias.empty(); },
    .changes_best = true,
    .apply = apply,
};

}  // namespace kvasir::run::samplers_logit_bias
