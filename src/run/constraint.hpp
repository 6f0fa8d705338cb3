// Which tokens may come next in an answer that has to conform to a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::run {

// A vocabulary sorted by the tokens' bytes. Tokens with a common beginning stand side by side, so the beginning is
// checked once for all of them. Control tokens and empty tokens are left out. Immutable.
class TokenOrder {
 public:
  explicit TokenOrder(const text::Tokenizer& tokenizer);

  struct Token {
    std::int32_t id;
    std::uint32_t begin, size;  // of its bytes in bytes()
    std::uint32_t common;       // leading bytes that it shares with the token before it
  };
  std::span<const Token> tokens() const { return tokens_; }
  const std::string& bytes() const { return bytes_; }
  std::span<const std::int32_t> ends() const { return ends_; }  // tokens that end texts

 private:
  std::vector<Token> tokens_;
  std::string bytes_;
  std::vector<std::int32_t> ends_;
};

// The constraint of one answer. A token is allowed if the grammar allows its bytes to follow. A token that ends texts
// is allowed where the text may end.
class Constraint {
 public:
  static constexpr std::size_t kMostStates = 8192;  // 1 KiB each

  Constraint(std::shared_ptr<const text::Grammar> grammar, std::shared_ptr<const TokenOrder> order,
             std::int32_t vocabulary);

  // A control token that is text where its name is allowed, though the order does not have it. Before the first mask.
  void allow_control(std::int32_t id, std::string_view name) { controls_.emplace_back(id, name); }
  // Sets the logit of every token that must not come next to -inf. O(vocabulary) the first time in a state of the
  // grammar; after that O(vocabulary / 64) plus the number of forbidden tokens.
  void mask(std::span<float> logits);
  // The chosen token adds `bytes` to the text. REQUIRES: the token was allowed.
  void accept(std::string_view bytes);
  // For texts that may follow, without accepting them: places in the grammar, valid until the next accept().
  using State = text::Matcher::State;
  State state() const { return state_; }
  void mask_at(State state, std::span<float> logits);
  State after(State state, std::string_view bytes);  // Matcher::kDead: not allowed
  bool may_end(State state) { return matcher_.accepts(state); }
  // The text is complete and nothing can follow.
  bool over() const { return matcher_.ends(state_); }
  // States of the grammar that are in memory. After accept() at most kMostStates.
  std::size_t states() const { return matcher_.states(); }

 private:
  using Mask = std::vector<std::uint64_t>;  // a bit per token
  Mask allowed(State at);

  std::shared_ptr<const TokenOrder> order_;
  text::Matcher matcher_;
  std::int32_t vocabulary_;
  std::vector<std::pair<std::int32_t, std::string>> controls_;
  text::Matcher::State state_;
  std::unordered_map<text::Matcher::State, Mask> masks_;
};

}  // namespace kvasir::run
