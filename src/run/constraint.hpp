// Answers that a grammar allows: which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::run {

// A vocabulary in the order of the tokens' bytes, so that what several begin with is looked at once. Control tokens and
// empty ones are not in it. Immutable.
class TokenOrder {
 public:
  explicit TokenOrder(const text::Tokenizer& tokenizer);

  struct Token {
    std::int32_t id;
    std::uint32_t begin, size;  // of its bytes in bytes()
    std::uint32_t common;       // bytes that it begins with as the token before it does
  };
  std::span<const Token> tokens() const { return tokens_; }
  const std::string& bytes() const { return bytes_; }
  std::span<const std::int32_t> ends() const { return ends_; }  // tokens that end texts

 private:
  std::vector<Token> tokens_;
  std::string bytes_;
  std::vector<std::int32_t> ends_;
};

// One answer's. A token is allowed when the grammar lets its bytes follow; one that ends texts, where the text may end.
class Constraint {
 public:
  static constexpr std::size_t kMostStates = 8192;  // 1 KiB each

  Constraint(std::shared_ptr<const text::Grammar> grammar, std::shared_ptr<const TokenOrder> order,
             std::int32_t vocabulary);

  // -inf for every token that must not come next. O(vocabulary) the first time in a state of the grammar, then
  // O(vocabulary / 64) and what is forbidden.
  void mask(std::span<float> logits);
  // REQUIRES: `bytes`, what the chosen token adds to the text, were allowed.
  void accept(std::string_view bytes);
  // The text is complete and nothing can follow.
  bool over() const { return matcher_.ends(state_); }
  // States of the grammar that were worked out and are not forgotten: after accept() at most kMostStates.
  std::size_t states() const { return matcher_.states(); }

 private:
  using Mask = std::vector<std::uint64_t>;  // a bit per token
  Mask allowed();

  std::shared_ptr<const TokenOrder> order_;
  text::Matcher matcher_;
  std::int32_t vocabulary_;
  text::Matcher::State state_;
  std::unordered_map<text::Matcher::State, Mask> masks_;
};

}  // namespace kvasir::run
