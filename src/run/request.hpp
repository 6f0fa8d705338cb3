// What is asked of a model, and the words of an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/pooling.hpp"
#include "model/rows.hpp"
#include "run/logprobs.hpp"
#include "run/sampling_options.hpp"
#include "text/grammar.hpp"
#include "text/reasoning.hpp"

namespace kvasir::run {

// When the model has thought for `most` tokens and has not ended it, the tokens `closing` follow.
struct ThinkingBudget {
  std::int32_t most = -1;                          // -1: none
  std::optional<text::ReasoningMarks> marks = {};  // without: no thinking is known
  bool inside = false;                             // the prompt ends within thinking
  std::vector<std::int32_t> closing = {};          // hold the mark that ends it

  explicit operator bool() const { return most >= 0 && marks && !closing.empty(); }
};

struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::vector<model::RowRun> runs;   // ascending, of rows in the prompt, whose ids stand in it
  std::int32_t prefix_tokens = 0;    // of the prompt's first that see each other both ways; -1: all (run/prefix.hpp)
  std::int32_t max_tokens = -1;      // -1: until the model ends or the context is full
  SamplingOptions sampling;
  std::vector<std::string> stop;
  std::int32_t top_logprobs = -1;  // alternatives per token; -1: no log-probabilities at all
  bool ignore_eos = false;
  std::string select;  // which blocks the answer's tokens read, as select/spec.hpp; empty: as the engine says
  std::string lora;    // scales of the engine's adapters, as Adapters::read_scales; empty: as the engine says
  std::vector<std::int32_t> shown;               // control tokens that are part of the answer's text
  std::shared_ptr<const text::Grammar> grammar;  // the answer is a text of it, as far as it gets; null: any text
  bool prompt_logprobs = false;                  // of the prompt's tokens, too; REQUIRES: top_logprobs >= 0
  // Where the context is full, the older half of the tokens behind the first `keep` is left out and the rest is
  // computed again, so that the answer goes on; -1: it ends.
  std::int64_t keep = -1;
  ThinkingBudget thinking;
  // Not kNone: no answer but one vector of the prompt (Listener::pooled). Nothing but the prompt counts then.
  model::Pooling pooling = model::Pooling::kNone;
  std::int64_t second = -1;  // of encoders: where the prompt's second text begins; -1: it is one text
};

enum class Finish { kEnd, kStop, kLength, kContext, kCancelled, kNothing /* no logit was a number */ };
std::string_view name(Finish finish);  // "end", "stop", "length", "context", "cancelled", "nothing to choose"

struct TokenRecord {
  std::int32_t id;
  float logprob;                   // of the model's own distribution
  std::vector<TokenLogprob> best;  // the most probable ones
};

}  // namespace kvasir::run
