#include "text/jinja/parser.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/parse_expr.hpp"

namespace kvasir::text::jinja {
namespace {

class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  Program run() {
    Program p;
    p.body = block({});
    p.symbols = symbols_.take();
    return p;
  }

 private:
  // Statements up to a tag that is one of `ends`; that tag's name is the token that follows. Without `ends`: all.
  Block block(std::initializer_list<std::string_view> ends) {
    const Guard guard(*this);
    Block body;
    while (!is(TokenKind::kEof)) {
      if (is(TokenKind::kData)) {
        Stmt s = make_stmt(StmtKind::kData);
        s.data = take().text;
        body.push_back(std::move(s));
      } else if (is(TokenKind::kPrintBegin)) {
        take();
        Stmt s = make_stmt(StmtKind::kPrint);
        s.expr = parse_tuple();
        expect(TokenKind::kPrintEnd, "'}}'");
        body.push_back(std::move(s));
      } else {
        expect(TokenKind::kBlockBegin, "'{%'");
        if (!is(TokenKind::kName)) unexpected("the name of a tag");
        if (std::find(ends.begin(), ends.end(), now().text) != ends.end()) return body;
        body.push_back(statement());
        expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size()) unexpected(fmt::format("'{{% {} %}}'", *(ends.end() - 1)));
    return body;
  }

  Stmt make_stmt(StmtKind kind) {
    Stmt s;
    s.kind = kind;
    s.line = now().line;
    return s;
  }

  // The body of a tag, to the tag `end`, whose name is taken.
  Block body_until(std::string_view end) {
    skip_op(":");
    expect(TokenKind::kBlockEnd, "'%}'");
    Block body = block({end});
    take();
    return body;
  }

  Stmt statement() {
    const std::string tag = now().text;
    if (tag == "for") return for_loop();
    if (tag == "if") return if_chain();
    if (tag == "set") return set();
    if (tag == "macro") return macro();
    if (tag == "call") return call_block();
    if (tag == "with") return with();
    if (tag == "filter") {
      Stmt s = make_stmt(StmtKind::kFilterBlock);
      take();
      s.expr = parse_filters(nullptr, true);
      s.body = body_until("endfilter");
      return s;
    }
    if (tag == "generation") {
      Stmt s = make_stmt(StmtKind::kScope);
      take();
      const int loops = std::exchange(loops_, 0);
      s.body = body_until("endgeneration");
      loops_ = loops;
      return s;
    }
    if (tag == "print" || tag == "do") {
      Stmt s = make_stmt(tag == "do" ? StmtKind::kDo : StmtKind::kPrint);
      take();
      s.expr = parse_tuple();
      return s;
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(now().line, fmt::format("'{}' outside of a loop", tag));
      Stmt s = make_stmt(tag == "break" ? StmtKind::kBreak : StmtKind::kContinue);
      take();
      return s;
    }
    for (const char* other : {"include", "import", "from", "extends", "block", "autoescape", "trans"})
      if (tag == other) fail_at(now().line, fmt::format("the tag '{}' is not available in chat templates", tag));
    fail_at(now().line, fmt::format("unknown tag '{}'", tag));
  }

  // a, (b, c) or, where attributes are allowed, ns.x, d[k], l[i].x
  Target target(bool attributes, std::string_view end_name) {
    const Guard guard(*this);
    Target first = target_item(attributes, end_name);
    if (!is_op(",")) return first;
    Target tuple;
    tuple.kind = Target::Kind::kTuple;
    tuple.items.push_back(std::move(first));
    while (skip_op(",")) {
      if (is(TokenKind::kBlockEnd) || is_op(")") || is_op("=") || (!end_name.empty() && is_name(end_name))) break;
      tuple.items.push_back(target_item(attributes, end_name));
    }
    return tuple;
  }

  Target target_item(bool attributes, std::string_view end_name) {
    if (skip_op("(")) {
      Target inner = target(attributes, end_name);
      expect_op(")");
      return inner;
    }
    return target_name(attributes);
  }

  Target target_name(bool attributes) {
    const Token t = expect(TokenKind::kName, "a name to assign to");
    for (const char* constant : {"true", "false", "none", "True", "False", "None"})
      if (t.text == constant) fail_at(t.line, fmt::format("cannot assign to '{}'", t.text));
    Target to;
    to.symbol = symbols_.number(t.text, &to.name);
    if (!attributes || !(is_op(".") || is_op("["))) return to;
    ExprPtr place = make(ExprKind::kName, t.line);
    place->symbol = to.symbol;
    place->value = Value(to.name);
    while (is_op(".") || is_op("[")) place = parse_subscript(std::move(place));
    ExprPtr owner = std::move(place->args[0]);
    if (place->kind == ExprKind::kAttr && owner->kind == ExprKind::kName) {
      to.kind = Target::Kind::kAttribute;
      to.attribute = place->value.text_ref();
      return to;
    }
    to.kind = Target::Kind::kItem;
    to.owner = std::move(owner);
    to.index = place->kind == ExprKind::kItem ? std::move(place->args[1]) : make(ExprKind::kConst, t.line);
    if (place->kind == ExprKind::kAttr) to.index->value = std::move(place->value);
    if (to.index->kind == ExprKind::kSlice) fail_at(t.line, "cannot assign to a slice");
    return to;
  }

  Stmt for_loop() {
    Stmt s = make_stmt(StmtKind::kFor);
    take();
    s.targets.push_back(target(false, "in"));
    expect_name("in");
    s.expr = parse_tuple(false, "recursive");
    if (skip_name("if")) s.test = parse_expression();
    s.recursive = skip_name("recursive");
    skip_op(":");
    expect(TokenKind::kBlockEnd, "'%}'");
    ++loops_;
    s.body = block({"else", "endfor"});
    --loops_;
    if (take().text == "else") s.other = body_until("endfor");
    return s;
  }

  Stmt if_chain() {
    Stmt s = make_stmt(StmtKind::kIf);
    std::string tag = take().text;
    while (tag != "endif") {
      Branch branch;
      if (tag == "else") {
        branch.body = body_until("endif");
        s.branches.push_back(std::move(branch));
        break;
      }
      branch.test = parse_tuple(false);
      skip_op(":");
      expect(TokenKind::kBlockEnd, "'%}'");
      branch.body = block({"elif", "else", "endif"});
      s.branches.push_back(std::move(branch));
      tag = take().text;
    }
    return s;
  }

  Stmt set() {
    Stmt s = make_stmt(StmtKind::kSet);
    take();
    s.targets.push_back(target(true, {}));
    if (skip_op("=")) {
      s.expr = parse_tuple();
      return s;
    }
    s.kind = StmtKind::kSetBlock;
    if (is_op("|")) s.expr = parse_filters(nullptr, false);
    s.body = body_until("endset");
    return s;
  }

  Stmt with() {
    Stmt s = make_stmt(StmtKind::kWith);
    take();
    while (!is(TokenKind::kBlockEnd) && !is(TokenKind::kEof)) {
      if (!s.targets.empty()) expect_op(",");
      // One target each: a comma separates assignments here.
      s.targets.push_back(target_item(false, {}));
      expect_op("=");
      s.exprs.push_back(parse_expression());
    }
    s.body = body_until("endwith");
    return s;
  }

  void signature(MacroDef& macro) {
    expect_op("(");
    while (!is_op(")")) {
      if (!macro.params.empty()) expect_op(",");
      const Target to = target_name(false);
      if (skip_op("=")) {
        macro.defaults.push_back(parse_expression());
      } else if (!macro.defaults.empty()) {
        fail_at(now().line, "a parameter without default follows one with a default");
      }
      macro.params.emplace_back(to.symbol, to.name);
    }
    expect_op(")");
  }

  void macro_body(MacroDef& macro, std::string_view end) {
    macros_.push_back(&macro);
    const int loops = std::exchange(loops_, 0);
    macro.body = body_until(end);
    loops_ = loops;
    macros_.pop_back();
  }

  Stmt macro() {
    Stmt s = make_stmt(StmtKind::kMacro);
    take();
    s.macro = std::make_unique<MacroDef>();
    s.targets.push_back(target_name(false));
    s.macro->name = s.targets[0].name->bytes;
    symbols_.number("caller");
    symbols_.number("kwargs");
    symbols_.number("varargs");
    signature(*s.macro);
    macro_body(*s.macro, "endmacro");
    return s;
  }

  Stmt call_block() {
    Stmt s = make_stmt(StmtKind::kCallBlock);
    take();
    s.macro = std::make_unique<MacroDef>();
    s.macro->name = "caller";
    symbols_.number("caller");
    if (is_op("(")) signature(*s.macro);
    s.expr = parse_expression();
    if (s.expr->kind != ExprKind::kCall) fail_at(s.line, "expected a call behind 'call'");
    macro_body(*s.macro, "endcall");
    return s;
  }

  int loops_ = 0;  // loops around what is being parsed, within the innermost macro
};

}  // namespace

Program parse(std::string_view source) { return Parser(lex(source)).run(); }

}  // namespace kvasir::text::jinja
