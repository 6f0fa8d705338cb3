// One request from prompt to text, with the figures of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "run/engine.hpp"
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
  std::shared_ptr<const text::Grammar> grammar;  // the answer is a text of it, as far as it gets; null: any text
};

enum class Finish { kEnd, kStop, kLength, kContext, kCancelled, kNothing /* no logit was a number */ };
std::string_view name(Finish finish);  // "end", "stop", "length", "context", "cancelled", "nothing to choose"

struct TokenRecord {
  std::int32_t id;
  float logprob;                   // of the model's own distribution
  std::vector<TokenLogprob> best;  // the most probable ones
};

struct Generated {
  std::vector<std::int32_t> ids;
  std::string text;  // empty without a tokenizer
  std::vector<TokenRecord> logprobs;
  Finish finish = Finish::kLength;
  std::int64_t seed = 0;

  // Figures. Seconds are from the call to generate; loading is not in them.
  std::int64_t prompt_tokens = 0;
  double prefill_seconds = 0;
  double first_token_seconds = 0;  // TTFT
  double decode_seconds = 0;       // of all steps after the first token
  std::int64_t decode_steps = 0;
  double decode_bytes = 0;  // weights and KV read by those steps, counted
};

struct Events {
  std::function<void(std::string_view)> text;               // as it is released
  std::function<void(std::int64_t, std::int64_t)> prefill;  // tokens done, tokens in all
  std::function<bool()> cancelled;                          // polled before every step
};

// Runs in a new sequence, which is released at the end. Throws Error(kBadInput) for an empty prompt, one that leaves no
// room in the context, ids outside the vocabulary, or bad sampling options; Error(kUnsupported) for a grammar and a
// model without a vocabulary.
Generated generate(Engine& engine, const Request& request, const Events& events);

}  // namespace kvasir::run
