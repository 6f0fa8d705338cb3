// How a request chooses its tokens.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "base/options.hpp"

namespace kvasir::run {

// Ranges and help: sampling_table(). All stages: sampler.hpp. The defaults are those of llama.cpp; those of the OpenAI
// API would be temperature 1 and every other stage off.
struct SamplingOptions {
  float temperature = 0.8f;          // 0: greedy (the best token, no random number is drawn)
  std::int32_t top_k = 40;           // 0: off
  float top_p = 0.95f;               // 1: off; 0: only the best token
  float min_p = 0.05f;               // relative to the best token's probability; 0: off
  float repetition_penalty = 1.0f;   // 1: off
  float presence_penalty = 0.0f;     // 0: off
  float frequency_penalty = 0.0f;    // 0: off
  std::int32_t penalty_last_n = 64;  // tokens of prompt and answer that penalties look at; -1: all; 0: none
  std::int64_t seed = -1;            // -1: a random one, see SamplerChain::seed
  std::map<std::int32_t, float>
      logit_bias;  // token id -> added to its logit; finite, or -inf to ban it; not in the table

  bool penalises() const {
    return penalty_last_n != 0 && (repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0);
  }
};

const OptionTable<SamplingOptions>& sampling_table();

// Adds a bias written "ID=NUMBER" ("42=-1.5", "7=-inf"). Throws Error(kBadInput) that shows the text. Ids are
// held against the vocabulary by validate.
void add_logit_bias(SamplingOptions& options, std::string_view text);

// Throws Error(kBadInput) that names the option, its value and the range; `vocab` bounds the ids of logit_bias.
void validate(const SamplingOptions& options, std::int32_t vocab);

}  // namespace kvasir::run
