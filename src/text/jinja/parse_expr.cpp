#include "text/jinja/parse_expr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace kvasir::text::jinja {
namespace {

void check_height(const Expr& e) {
  if (e.height > kMaxHeight) fail_at(e.line, fmt::format("the expression is nested more than {} deep", kMaxHeight));
}

std::optional<Op> comparison(const Token& t) {
  if (t.kind != TokenKind::kOp) return {};
  if (t.text == "==") return Op::kEq;
  if (t.text == "!=") return Op::kNe;
  if (t.text == "<") return Op::kLt;
  if (t.text == "<=") return Op::kLe;
  if (t.text == ">") return Op::kGt;
  if (t.text == ">=") return Op::kGe;
  return {};
}

// Arithmetic of one level of precedence: 0 is + and -, 1 is * / // %, 2 is **.
std::optional<Op> arithmetic(const Token& t, int level) {
  if (t.kind != TokenKind::kOp) return {};
  if (level == 0) {
    if (t.text == "+") return Op::kAdd;
    if (t.text == "-") return Op::kSub;
  } else if (level == 1) {
    if (t.text == "*") return Op::kMul;
    if (t.text == "/") return Op::kDiv;
    if (t.text == "//") return Op::kFloorDiv;
    if (t.text == "%") return Op::kMod;
  } else if (t.text == "**") {
    return Op::kPow;
  }
  return {};
}

}  // namespace

int Symbols::number(const std::string& name, TextRef* text) {
  const auto [at, added] = numbers_.try_emplace(name, static_cast<int>(texts_.size()));
  if (added) texts_.push_back(std::make_shared<const Text>(Text{name, false}));
  if (text) *text = texts_[static_cast<std::size_t>(at->second)];
  return at->second;
}

void add(Expr& parent, ExprPtr child) {
  if (child) parent.height = std::max(parent.height, child->height + 1);
  parent.args.push_back(std::move(child));
  check_height(parent);
}

ExprPtr make(ExprKind kind, int line, std::initializer_list<ExprPtr*> args) {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->line = line;
  for (ExprPtr* arg : args) add(*e, std::move(*arg));
  return e;
}

void add_call(Expr& e, std::unique_ptr<CallArgs> call) {
  const auto grow = [&e](const ExprPtr& arg) {
    if (arg) e.height = std::max(e.height, arg->height + 1);
  };
  for (const auto& arg : call->positional) grow(arg);
  for (const auto& arg : call->named) grow(arg.second);
  grow(call->star);
  grow(call->star_star);
  check_height(e);
  e.call = std::move(call);
}

ExprPtr make_number(const Token& t) {
  auto e = make(ExprKind::kConst, t.line);
  const char *begin = t.text.data(), *end = begin + t.text.size();
  if (t.kind == TokenKind::kReal) {
    double d = 0;
    if (std::from_chars(begin, end, d).ec != std::errc{}) fail_at(t.line, fmt::format("{} is out of range", t.text));
    e->value = Value(d);
    return e;
  }
  int base = 10;
  if (t.text.size() > 2 && t.text[1] > '9') {
    base = t.text[1] == 'x' ? 16 : t.text[1] == 'o' ? 8 : 2;
    begin += 2;
  }
  std::int64_t i = 0;
  if (std::from_chars(begin, end, i, base).ec != std::errc{})
    fail_at(t.line, fmt::format("{} is out of range", t.text));
  e->value = Value(i);
  return e;
}

ExprParser::Guard::Guard(ExprParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kMaxHeight) fail_at(parser_.now().line, fmt::format("nested more than {} deep", kMaxHeight));
}

ExprPtr ExprParser::parse_cond() {
  const Guard guard(*this);
  ExprPtr value = parse_or();
  while (is_name("if")) {
    const int line = take().line;
    ExprPtr test = parse_or(), other;
    if (skip_name("else")) other = parse_cond();
    value = make(ExprKind::kCond, line, {&test, &value, &other});
  }
  return value;
}

ExprPtr ExprParser::parse_or() {
  const auto operand = [this] {
    return parse_joined(
        ExprKind::kAnd, [this] { return skip_name("and"); }, [this] { return parse_not(); });
  };
  return parse_joined(
      ExprKind::kOr, [this] { return skip_name("or"); }, operand);
}

ExprPtr ExprParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Guard guard(*this);
  const int line = take().line;
  ExprPtr inner = parse_not();
  return make(ExprKind::kNot, line, {&inner});
}

ExprPtr ExprParser::parse_compare() {
  const int line = now().line;
  ExprPtr first = parse_chain(0);
  ExprPtr e;
  for (;;) {
    auto op = comparison(now());
    if (is_name("in")) op = Op::kIn;
    const bool negated = is_name("not") && look().kind == TokenKind::kName && look().text == "in";
    if (negated) op = Op::kNotIn;
    if (!op) return e ? std::move(e) : std::move(first);
    take();
    if (negated) take();
    if (!e) e = make(ExprKind::kCompare, line, {&first});
    e->ops.push_back(*op);
    add(*e, parse_chain(0));
  }
}

// Jinja's ~ binds between + and *.
ExprPtr ExprParser::parse_chain(int level) {
  const auto operand = [&] { return level == 0 ? parse_concat() : level == 1 ? parse_chain(2) : parse_unary(); };
  const int line = now().line;
  ExprPtr first = operand();
  if (!arithmetic(now(), level)) return first;
  auto e = make(ExprKind::kArith, line, {&first});
  while (const auto op = arithmetic(now(), level)) {
    take();
    e->ops.push_back(*op);
    add(*e, operand());
  }
  return e;
}

ExprPtr ExprParser::parse_concat() {
  return parse_joined(
      ExprKind::kConcat, [this] { return skip_op("~"); }, [this] { return parse_chain(1); });
}

ExprPtr ExprParser::parse_unary(bool with_filter) {
  const Guard guard(*this);
  const int line = now().line;
  ExprPtr e;
  if (skip_op("-")) {
    ExprPtr inner = parse_unary(false);
    e = make(ExprKind::kNeg, line, {&inner});
  } else if (skip_op("+")) {
    ExprPtr inner = parse_unary(false);
    e = make(ExprKind::kPos, line, {&inner});
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  return with_filter ? parse_filter_expr(std::move(e)) : std::move(e);
}

ExprPtr ExprParser::parse_primary() {
  const int line = now().line;
  if (is(TokenKind::kName)) return parse_name();
  if (is(TokenKind::kInt) || is(TokenKind::kReal)) return make_number(take());
  if (is(TokenKind::kString)) {
    std::string text;
    while (is(TokenKind::kString)) text += take().text;
    auto e = make(ExprKind::kConst, line);
    e->value = Value(std::move(text));
    return e;
  }
  if (skip_op("(")) {
    auto e = parse_tuple(true, {}, true);
    expect_op(")");
    return e;
  }
  if (is_op("[")) return parse_items(ExprKind::kList, "]");
  if (is_op("{")) return parse_items(ExprKind::kDict, "}");
  unexpected("an expression");
}

ExprPtr ExprParser::parse_name() {
  const Token t = take();
  auto e = make(ExprKind::kConst, t.line);
  if (t.text == "true" || t.text == "True") {
    e->value = Value(true);
  } else if (t.text == "false" || t.text == "False") {
    e->value = Value(false);
  } else if (t.text == "none" || t.text == "None") {
    e->value = Value(None{});
  } else {
    e->kind = ExprKind::kName;
    TextRef text;
    e->symbol = symbols_.number(t.text, &text);
    e->value = Value(std::move(text));
    for (MacroDef* macro : macros_) {
      macro->uses_caller |= t.text == "caller";
      macro->uses_kwargs |= t.text == "kwargs";
      macro->uses_varargs |= t.text == "varargs";
    }
  }
  return e;
}

bool ExprParser::at_tuple_end(std::string_view end_name) const {
  return is(TokenKind::kPrintEnd) || is(TokenKind::kBlockEnd) || is_op(")") || (!end_name.empty() && is_name(end_name));
}

ExprPtr ExprParser::parse_tuple(bool with_cond, std::string_view end_name, bool parentheses) {
  const int line = now().line;
  if (at_tuple_end(end_name)) {
    if (!parentheses) unexpected("an expression");
    return make(ExprKind::kTuple, line);
  }
  ExprPtr first = parse_expression(with_cond);
  if (!is_op(",")) return first;
  auto e = make(ExprKind::kTuple, line, {&first});
  while (skip_op(",")) {
    if (at_tuple_end(end_name)) break;
    add(*e, parse_expression(with_cond));
  }
  return e;
}

ExprPtr ExprParser::parse_items(ExprKind kind, std::string_view end) {
  auto e = make(kind, take().line);
  while (!is_op(end)) {
    if (!e->args.empty()) expect_op(",");
    if (is_op(end)) break;
    add(*e, parse_expression());
    if (kind != ExprKind::kDict) continue;
    expect_op(":");
    add(*e, parse_expression());
  }
  take();
  return e;
}

}  // namespace kvasir::text::jinja
