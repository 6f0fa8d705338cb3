// A template's tokens, read one after the other.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/lexer.hpp"

namespace kvasir::text::jinja {

class TokenCursor {
 public:
  explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[i_]; }
  const Token& look() const { return tokens_[std::min(i_ + 1, tokens_.size() - 1)]; }
  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::kOp) && now().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && now().text == name; }
  Token take() { return is(TokenKind::kEof) ? now() : std::move(tokens_[i_++]); }
  bool skip_op(std::string_view op);  // whether it stood there
  bool skip_name(std::string_view name);
  // Throw Error(kBadInput), as unexpected does, where something else stands.
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  Token expect(TokenKind kind, const char* what);
  [[noreturn]] void unexpected(const std::string& wanted) const;

 private:
  std::vector<Token> tokens_;
  std::size_t i_ = 0;
};

}  // namespace kvasir::text::jinja
