// One request's answer as it grows: the next token from the logits, the text it releases, and when to stop.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/constraint.hpp"
#include "run/engine.hpp"
#include "run/request.hpp"
#include "run/sampler.hpp"
#include "run/stop.hpp"
#include "text/stream.hpp"

namespace kvasir::run {

// Throws Error(kBadInput) for an empty prompt, one that leaves no room in the context, ids outside the vocabulary, or
// bad sampling options and stop strings; Error(kUnsupported) for a grammar without a vocabulary.
void check_request(const Engine& engine, const Request& request);
// Scales of the engine's adapters for a request, as model::Input has them. Throws Error(kBadInput) for what
// Request::lora names that is not there.
std::vector<float> adapter_scales(const Engine& engine, const Request& request);

class Answer {
 public:
  // `request` must outlive this. Throws as check_request does. With Request::keep the context is no bound: before
  // `cached` + 1 reaches it, whoever feeds the tokens makes room.
  Answer(const Engine& engine, const Request& request);

  // Chooses a token by `row`, the logits behind prompt and answer so far, which take `cached` tokens of the context.
  // True: feed token() and come again. False: the answer is over, finish() says why; whether a last token was chosen
  // shows in size().
  bool next(std::span<const float> row, std::int64_t cached);
  // Ends the answer from outside.
  void stop(Finish finish);

  std::size_t most() const { return ids_.capacity(); }  // tokens that it may have; they cost no further memory
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  std::span<const std::int32_t> ids() const { return ids_; }
  std::int32_t token() const { return ids_.back(); }
  // With log-probabilities wanted: of the last token.
  const TokenRecord& record() const { return record_; }
  // What the last call released; valid until the next one.
  std::string_view text() const { return text_; }
  bool over() const { return over_; }
  Finish finish() const { return finish_; }
  // Room for another context of tokens, whoever made room in the cache.
  void make_room() { ids_.reserve(ids_.size() + static_cast<std::size_t>(context_)); }
  // Tokens of thinking after which the budget ended it; -1: it did not.
  std::int64_t thinking_cut() const { return thinking_cut_; }
  // Of several stop strings the one that ended it; -1: none did.
  std::int32_t stopped_by() const { return stopped_by_; }
  std::int64_t seed() const { return sampler_.seed(); }
  const SamplerChain& sampler() const { return sampler_; }
  const SamplingOptions& sampling() const { return sampler_.options(); }  // the request's, and what is never generated

  // What a grammar, and the end of the text, let follow: for drafts. Valid until the next token.
  struct Ahead {
    Constraint::State state{};
    bool over = false;
  };
  Ahead ahead() const { return {constraint_ ? constraint_->state() : Constraint::State{}, over_}; }
  // Goes a token further. False: it cannot come there.
  bool follow(Ahead& at, std::int32_t id);
  // Sets the logits of tokens that cannot come there to -inf.
  void mask(const Ahead& at, std::span<float> logits) {
    if (constraint_) constraint_->mask_at(at.state, logits);
  }

 private:
  bool end(Finish finish);
  bool release(const std::string& piece);  // true: a stop string was hit
  void flush();
  std::int32_t choose(std::span<const float> row);
  void think(std::string_view piece);

  const Request& request_;
  const text::Tokenizer* tokenizer_;
  std::int64_t context_;
  SamplerChain sampler_;
  std::optional<text::TextStream> stream_;  // none: the model runs on ids
  StopMatcher matcher_;
  std::optional<Constraint> constraint_;
  std::vector<float> logits_;  // the sampler works in a copy
  std::vector<std::int32_t> ids_;
  TokenRecord record_{};
  std::string text_;
  bool over_ = false;
  Finish finish_ = Finish::kLength;
  std::int32_t stopped_by_ = -1;

  // With a budget of thinking.
  std::optional<text::ReasoningSplitter> thinking_;
  std::int64_t thought_ = 0;  // tokens
  std::size_t closed_ = 0;    // tokens of `closing` that were said
  std::int64_t thinking_cut_ = -1;
  std::string thoughts_, said_;  // what the splitter gives out
};

}  // namespace kvasir::run
