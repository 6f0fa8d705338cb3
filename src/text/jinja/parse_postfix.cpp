// What stands behind an operand: subscripts, calls, filters, tests.
#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/parse_expr.hpp"

namespace kvasir::text::jinja {

ExprPtr ExprParser::parse_postfix(ExprPtr e) {
  for (;;) {
    if (is_op(".") || is_op("[")) {
      e = parse_subscript(std::move(e));
    } else if (is_op("(")) {
      e = parse_call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr ExprParser::parse_filter_expr(ExprPtr e) {
  for (;;) {
    if (is_op("|")) {
      e = parse_filters(std::move(e), false);
    } else if (is_name("is")) {
      e = parse_test(std::move(e));
    } else if (is_op("(")) {
      e = parse_call(std::move(e));
    } else {
      return e;
    }
  }
}

ExprPtr ExprParser::parse_subscript(ExprPtr e) {
  const Token t = take();
  if (t.text == ".") {
    if (is(TokenKind::kInt)) {
      ExprPtr index = make_number(take());
      return make(ExprKind::kItem, t.line, {&e, &index});
    }
    auto name = expect(TokenKind::kName, "a name or a number");
    auto attr = make(ExprKind::kAttr, t.line, {&e});
    attr->value = Value(std::move(name.text));
    return attr;
  }
  std::vector<ExprPtr> args;
  while (!is_op("]")) {
    if (!args.empty()) expect_op(",");
    args.push_back(parse_subscribed());
  }
  take();
  if (args.empty()) fail_at(t.line, "expected a subscript between '[' and ']'");
  if (args.size() == 1) return make(ExprKind::kItem, t.line, {&e, &args[0]});
  auto tuple = make(ExprKind::kTuple, t.line);
  for (auto& arg : args) {
    if (arg->kind == ExprKind::kSlice) fail_at(t.line, "a slice must be the only subscript");
    add(*tuple, std::move(arg));
  }
  return make(ExprKind::kItem, t.line, {&e, &tuple});
}

ExprPtr ExprParser::parse_subscribed() {
  const int line = now().line;
  const auto at_end = [this] { return is_op(":") || is_op("]") || is_op(","); };
  ExprPtr begin, end, step;
  if (!is_op(":")) {
    begin = parse_expression();
    if (!is_op(":")) return begin;
  }
  take();
  if (!at_end()) end = parse_expression();
  if (skip_op(":") && !at_end()) step = parse_expression();
  return make(ExprKind::kSlice, line, {&begin, &end, &step});
}

std::unique_ptr<CallArgs> ExprParser::parse_call_args() {
  auto call = std::make_unique<CallArgs>();
  const int line = now().line;
  const auto require = [line](bool ok) {
    if (!ok) fail_at(line, "arguments are out of order: positional, named, *args, **kwargs");
  };
  expect_op("(");
  for (bool first = true; !is_op(")"); first = false) {
    if (!first) expect_op(",");
    if (is_op(")")) break;
    if (skip_op("*")) {
      require(!call->star && !call->star_star);
      call->star = parse_expression();
    } else if (skip_op("**")) {
      require(!call->star_star);
      call->star_star = parse_expression();
    } else if (is(TokenKind::kName) && look().kind == TokenKind::kOp && look().text == "=") {
      require(!call->star_star);
      auto name = std::make_shared<const Text>(Text{take().text, false});
      take();
      call->named.emplace_back(std::move(name), parse_expression());
    } else {
      require(!call->star && !call->star_star && call->named.empty());
      call->positional.push_back(parse_expression());
    }
  }
  expect_op(")");
  return call;
}

ExprPtr ExprParser::parse_call(ExprPtr callee) {
  auto e = make(ExprKind::kCall, now().line, {&callee});
  add_call(*e, parse_call_args());
  return e;
}

std::string ExprParser::dotted_name() {
  std::string name = expect(TokenKind::kName, "a name").text;
  while (skip_op(".")) name += "." + expect(TokenKind::kName, "a name").text;
  return name;
}

ExprPtr ExprParser::parse_filters(ExprPtr input, bool first_without_pipe) {
  while (first_without_pipe || is_op("|")) {
    if (!first_without_pipe) take();
    first_without_pipe = false;
    auto e = make(ExprKind::kFilter, now().line, {&input});
    auto name = dotted_name();
    e->filter = find_filter(name);
    e->value = Value(std::move(name));
    add_call(*e, is_op("(") ? parse_call_args() : std::make_unique<CallArgs>());
    input = std::move(e);
  }
  return input;
}

ExprPtr ExprParser::parse_test(ExprPtr subject) {
  const int line = take().line;
  const bool negated = skip_name("not");
  auto e = make(ExprKind::kTest, line, {&subject});
  auto name = dotted_name();
  e->test = find_test(name);
  e->value = Value(std::move(name));
  auto call = std::make_unique<CallArgs>();
  const bool operand = is(TokenKind::kName) || is(TokenKind::kString) || is(TokenKind::kInt) || is(TokenKind::kReal) ||
                       is_op("[") || is_op("{");
  if (is_op("(")) {
    call = parse_call_args();
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail_at(now().line, "tests cannot be chained with 'is'");
    call->positional.push_back(parse_postfix(parse_primary()));
  }
  add_call(*e, std::move(call));
  return negated ? make(ExprKind::kNot, line, {&e}) : std::move(e);
}

}  // namespace kvasir::text::jinja
