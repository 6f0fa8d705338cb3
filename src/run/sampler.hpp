// From logits to a token: a chain of stages, each one file in samplers/, and a draw.
//
// Order of the stages: logit_bias, penalties, top_k, top_p, min_p, temperature. Penalties and bias first, since they
// correct the model. Temperature last, as in llama.cpp's default chain (penalties, top_k, top_p, min_p, temperature)
// whose users bring their settings here: what is cut off is decided on the model's own distribution, and temperature
// only chooses among what is left, so raising it does not let the tail back in. Hugging Face and vLLM apply temperature
// before the cuts; with the cuts at their neutral values, as OpenAI recommends (alter temperature or top_p, not both),
// the two orders agree.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/registry.hpp"
#include "run/candidates.hpp"
#include "run/history.hpp"
#include "run/rng.hpp"
#include "run/sampling_options.hpp"

namespace kvasir::run {

// An entry of samplers/. Stages run by increasing `order`; equal orders by name. Those below kFirstCut see dense
// candidates (logits of the whole vocabulary); from kFirstCut on the best logit is known to be finite.
struct Sampler {
  static constexpr int kFirstCut = 100;

  int order;
  std::string_view help;
  bool (*active)(const SamplingOptions&);  // false: the stage would change nothing, it is left out
  // Whether the candidate that ranks first can become another one. Stages that cannot do that are left out of greedy
  // runs.
  bool changes_best;
  // Does not allocate, does not throw; leaves at least one candidate of those it found, except that bias may ban all.
  void (*apply)(const SamplingOptions&, const History&, Candidates&);
};

std::span<const Entry<Sampler>> samplers();

struct Sampled {
  std::int32_t id = -1;  // -1: nothing to choose from, every logit is NaN or -inf
  // ln of the probability with which the chain chose it, so 0 when greedy. The model's own: see logprobs.hpp.
  float logprob = 0;
};

// One per request. Does not allocate after construction; the same options, seed, tokens and logits give the same choice
// on every machine. NaN and -inf logits are never chosen; a +inf logit is (the lowest id of them).
class SamplerChain {
 public:
  // Throws as validate does. REQUIRES: vocab >= 1.
  SamplerChain(const SamplingOptions& options, std::int32_t vocab);
  const SamplingOptions& options() const { return options_; }

  // Chooses a token; works in `logits` (vocab), which are spoilt afterwards. Does not count the token: call accept.
  // O(vocab).
  Sampled sample(std::span<float> logits);

  // Tells the penalties what the text consists of. REQUIRES: 0 <= id < vocab.
  void accept(std::int32_t id);
  void accept_prompt(std::span<const std::int32_t> ids);

  // Goes on as `other` would: with its next random numbers, and with the text that its penalties know. For drafts,
  // which are drawn as the target draws, so that both often choose the same. REQUIRES: the same options and vocabulary.
  void follow(const SamplerChain& other);

  // The seed in use: the option's, or the random one, with which the run can be repeated.
  std::int64_t seed() const { return seed_; }

  // What the last random draw was made from: the surviving candidates with their final logits. Empty after a greedy
  // choice.
  std::span<const Candidate> survivors() const { return survivors_; }

 private:
  Sampled draw();

  SamplingOptions options_;
  std::int32_t vocab_;
  std::int64_t seed_;
  Rng rng_;
  History history_;
  Candidates candidates_;
  std::vector<const Sampler*> stages_;
  std::span<const Candidate> survivors_;
  std::vector<double> block_mass_;  // (ceil(vocab / 256)): sums of a draw
};

}  // namespace kvasir::run
