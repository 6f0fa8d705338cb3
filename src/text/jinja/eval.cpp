// Expressions.
#include <fmt/format.h>

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"
#include "text/jinja/operators.hpp"

namespace kvasir::text::jinja {
namespace {

Value eval_cond(Machine& m, const Expr& e) {
  if (truthy(m.eval(*e.args[0]))) return m.eval(*e.args[1]);
  if (e.args[2]) return m.eval(*e.args[2]);
  return undefined_because("the inline if-expression evaluated to false and no else section was defined.");
}

Value eval_sequence(Machine& m, const Expr& e) {
  std::vector<Value> items;
  items.reserve(e.args.size());
  for (const auto& arg : e.args) items.push_back(m.eval(*arg));
  const auto kind = e.kind == ExprKind::kList ? SequenceKind::kList : SequenceKind::kTuple;
  return make_sequence(m.meter(), kind, std::move(items));
}

Value eval_dict(Machine& m, const Expr& e) {
  DictMaker dict(m.meter());
  for (std::size_t i = 0; i < e.args.size(); i += 2) {
    Value key = m.eval(*e.args[i]);
    dict.set(std::move(key), m.eval(*e.args[i + 1]));
  }
  return dict.take();
}

Value eval_item(Machine& m, const Expr& e) {
  const Value object = m.eval(*e.args[0]);
  const Expr& index = *e.args[1];
  if (index.kind != ExprKind::kSlice) {
    const Value i = m.eval(index);
    m.at(e.line);
    return subscript(m, object, i);
  }
  Value bounds[3];
  const Value* given[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!index.args[i]) continue;
    bounds[i] = m.eval(*index.args[i]);
    given[i] = &bounds[i];
  }
  m.at(e.line);
  return slice(object, given[0], given[1], given[2], m.meter());
}

// A method that is called at once needs no object.
Value eval_call(Machine& m, const Expr& e) {
  const Expr& callee = *e.args[0];
  if (callee.kind == ExprKind::kAttr) {
    const Value self = m.eval(*callee.args[0]);
    const Method* method = self.is_undefined() || self.object() ? nullptr : find_method(self, callee.value.view());
    if (method) {
      Args args = m.eval_args(*e.call);
      m.at(e.line);
      return method->call(m, self, args);
    }
    m.at(e.line);
    const Value function = attribute(m, self, callee.value.text_ref());
    Args args = m.eval_args(*e.call);
    m.at(e.line);
    return m.call(function, args);
  }
  const Value function = m.eval(callee);
  Args args = m.eval_args(*e.call);
  m.at(e.line);
  return m.call(function, args);
}

Value eval_filter(Machine& m, const Expr& e) {
  const Value input = e.args[0] ? m.eval(*e.args[0]) : *m.block_input();
  if (!e.filter) fail(fmt::format("no filter named '{}'", e.value.view()));
  Args args = m.eval_args(*e.call);
  m.at(e.line);
  return e.filter->apply(m, input, args);
}

bool eval_test(Machine& m, const Expr& e) {
  const Value subject = m.eval(*e.args[0]);
  if (!e.test) fail(fmt::format("no test named '{}'", e.value.view()));
  Args args = m.eval_args(*e.call);
  m.at(e.line);
  return e.test->holds(m, subject, args);
}

Value eval_arith(Machine& m, const Expr& e) {
  Value v = m.eval(*e.args[0]);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    const Value right = m.eval(*e.args[i + 1]);
    m.at(e.line);
    v = arithmetic(e.ops[i], v, right, m.meter());
  }
  return v;
}

Value eval_concat(Machine& m, const Expr& e) {
  std::string text;
  for (const auto& arg : e.args) append_str(text, m.eval(*arg), m.meter());
  return make_text(m.meter(), std::move(text));
}

bool eval_compare(Machine& m, const Expr& e) {
  Value left = m.eval(*e.args[0]);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    Value right = m.eval(*e.args[i + 1]);
    m.at(e.line);
    if (!holds(e.ops[i], left, right, m.meter())) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace

Value Machine::eval(const Expr& e) {
  const Nesting nesting(meter_);
  meter_.step();
  switch (e.kind) {
    case ExprKind::kConst:
      return e.value;
    case ExprKind::kName:
      return scopes_.find(e.symbol);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return eval_sequence(*this, e);
    case ExprKind::kDict:
      return eval_dict(*this, e);
    case ExprKind::kAttr: {
      const Value object = eval(*e.args[0]);
      line_ = e.line;
      return attribute(*this, object, e.value.text_ref());
    }
    case ExprKind::kItem:
      return eval_item(*this, e);
    case ExprKind::kSlice:
      fail("a slice stands outside of a subscript");
    case ExprKind::kCall:
      return eval_call(*this, e);
    case ExprKind::kFilter:
      return eval_filter(*this, e);
    case ExprKind::kTest:
      return Value(eval_test(*this, e));
    case ExprKind::kNot:
      return Value(!truthy(eval(*e.args[0])));
    case ExprKind::kNeg:
      return negate(eval(*e.args[0]));
    case ExprKind::kPos:
      return negate(negate(eval(*e.args[0])));
    case ExprKind::kArith:
      return eval_arith(*this, e);
    case ExprKind::kConcat:
      return eval_concat(*this, e);
    case ExprKind::kCompare:
      return Value(eval_compare(*this, e));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value v;
      for (const auto& arg : e.args) {
        v = eval(*arg);
        if (truthy(v) == (e.kind == ExprKind::kOr)) break;
      }
      return v;
    }
    case ExprKind::kCond:
      return eval_cond(*this, e);
  }
  return {};
}

}  // namespace kvasir::text::jinja
