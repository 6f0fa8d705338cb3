// The expression half of the parser; parser.cpp adds statements.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/lexer.hpp"

namespace kvasir::text::jinja {

inline constexpr int kMaxHeight = 200;  // of an expression tree, and of blocks within blocks

class ExprParser {
 public:
  explicit ExprParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  // Names of Jinja's grammar, which this follows.
  ExprPtr parse_tuple(bool with_cond = true, std::string_view end_name = {}, bool parentheses = false);
  ExprPtr parse_expression(bool with_cond = true) { return with_cond ? parse_cond() : parse_or(); }
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_call(ExprPtr callee);
  // `input` null: a filter block. One filter at least is expected.
  ExprPtr parse_filters(ExprPtr input, bool first_without_pipe);

  ExprPtr make(ExprKind kind, int line, std::initializer_list<ExprPtr*> args = {});
  ExprPtr parse_subscript(ExprPtr e);

  int symbol(const std::string& name, TextRef* text = nullptr);

  const Token& now() const { return tokens_[i_]; }
  const Token& look() const { return tokens_[std::min(i_ + 1, tokens_.size() - 1)]; }
  bool is(TokenKind kind) const { return now().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::kOp) && now().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && now().text == name; }
  Token take() { return is(TokenKind::kEof) ? now() : std::move(tokens_[i_++]); }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  Token expect(TokenKind kind, const char* what);
  [[noreturn]] void unexpected(const std::string& wanted) const;

  class Guard {
   public:
    explicit Guard(ExprParser& parser);
    ~Guard() { --parser_.depth_; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ExprParser& parser_;
  };

  std::vector<TextRef> symbols_;
  std::vector<MacroDef*> macros_;  // whose bodies are being parsed, the innermost last

 private:
  void add(Expr& parent, ExprPtr child);
  void check_height(const Expr& e) const;
  ExprPtr parse_cond();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_chain(int level);
  ExprPtr parse_concat();
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_number();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr e);
  ExprPtr parse_filter_expr(ExprPtr e);
  ExprPtr parse_subscribed();
  ExprPtr parse_test(ExprPtr subject);
  std::unique_ptr<CallArgs> parse_call_args();
  std::string dotted_name();
  void add_call(Expr& e, std::unique_ptr<CallArgs> call);
  bool at_tuple_end(std::string_view end_name) const;

  std::vector<Token> tokens_;
  std::size_t i_ = 0;
  int depth_ = 0;
  std::map<std::string, int, std::less<>> numbers_;  // of symbols_
};

}  // namespace kvasir::text::jinja
