// What is asked of a model, and the words of an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "run/logprobs.hpp"
#include "run/sampling_options.hpp"
#include "text/grammar.hpp"

namespace kvasir::run {

struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::int32_t max_tokens = -1;      // -1: until the model ends or the context is full
  SamplingOptions sampling;
  std::vector<std::string> stop;
  std::int32_t top_logprobs = -1;  // alternatives per token; -1: no log-probabilities at all
  bool ignore_eos = false;
  std::vector<std::int32_t> shown;               // control tokens that are part of the answer's text
  std::shared_ptr<const text::Grammar> grammar;  // the answer is a text of it, as far as it gets; null: any text
};

enum class Finish { kEnd, kStop, kLength, kContext, kCancelled, kNothing /* no logit was a number */ };
std::string_view name(Finish finish);  // "end", "stop", "length", "context", "cancelled", "nothing to choose"

struct TokenRecord {
  std::int32_t id;
  float logprob;                   // of the model's own distribution
  std::vector<TokenLogprob> best;  // the most probable ones
};

}  // namespace kvasir::run
