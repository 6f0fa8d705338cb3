// Expressions from tokens. parser.cpp has the statements around them.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/token_cursor.hpp"

namespace kvasir::text::jinja {

inline constexpr int kMaxHeight = 200;  // of an expression tree, and of blocks within blocks

// The names of variables, numbered as they come.
class Symbols {
 public:
  int number(const std::string& name, TextRef* text = nullptr);
  std::vector<TextRef> take() { return std::move(texts_); }

 private:
  std::vector<TextRef> texts_;
  std::map<std::string, int, std::less<>> numbers_;
};

// Parts of trees. Throw Error(kBadInput) where a tree grows too high.
ExprPtr make(ExprKind kind, int line, std::initializer_list<ExprPtr*> args = {});
ExprPtr make_number(const Token& t);
void add(Expr& parent, ExprPtr child);
void add_call(Expr& e, std::unique_ptr<CallArgs> call);

class ExprParser : protected TokenCursor {
 public:
  using TokenCursor::TokenCursor;

 protected:
  // Names of Jinja's grammar, which this follows.
  ExprPtr parse_tuple(bool with_cond = true, std::string_view end_name = {}, bool parentheses = false);
  ExprPtr parse_expression(bool with_cond = true) { return with_cond ? parse_cond() : parse_or(); }
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_call(ExprPtr callee);
  // `input` null: a filter block. One filter at least is expected.
  ExprPtr parse_filters(ExprPtr input, bool first_without_pipe);

  ExprPtr parse_subscript(ExprPtr e);

  class Guard {
   public:
    explicit Guard(ExprParser& parser);
    ~Guard() { --parser_.depth_; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ExprParser& parser_;
  };

  Symbols symbols_;
  std::vector<MacroDef*> macros_;  // whose bodies are being parsed, the innermost last

 private:
  ExprPtr parse_cond();
  ExprPtr parse_or();
  // `operand`s with what `skip` skips between them; one alone is itself.
  template <class Skip, class Operand>
  ExprPtr parse_joined(ExprKind kind, Skip skip, Operand operand) {
    ExprPtr first = operand();
    const int line = now().line;
    if (!skip()) return first;
    auto e = make(kind, line, {&first});
    do add(*e, operand());
    while (skip());
    return e;
  }
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_chain(int level);
  ExprPtr parse_concat();
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_items(ExprKind kind, std::string_view end);  // of a list or dict
  ExprPtr parse_postfix(ExprPtr e);
  ExprPtr parse_filter_expr(ExprPtr e);
  ExprPtr parse_subscribed();
  ExprPtr parse_test(ExprPtr subject);
  std::unique_ptr<CallArgs> parse_call_args();
  std::string dotted_name();
  bool at_tuple_end(std::string_view end_name) const;

  int depth_ = 0;
};

}  // namespace kvasir::text::jinja
