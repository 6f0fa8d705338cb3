// Expressions.
#include <fmt/format.h>

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"
#include "text/jinja/operators.hpp"

namespace kvasir::text::jinja {

Value Machine::eval(const Expr& e) {
  const Nesting nesting(meter_);
  meter_.step();
  switch (e.kind) {
    case ExprKind::kConst:
      return e.value;
    case ExprKind::kName:
      return *find_variable(e.symbol);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return eval_sequence(e);
    case ExprKind::kDict:
      return eval_dict(e);
    case ExprKind::kAttr: {
      const Value object = eval(*e.args[0]);
      line_ = e.line;
      return attribute(object, e.value.text_ref());
    }
    case ExprKind::kItem:
      return eval_item(e);
    case ExprKind::kSlice:
      fail("a slice stands outside of a subscript");
    case ExprKind::kCall:
      return eval_call(e);
    case ExprKind::kFilter:
      return eval_filter(e);
    case ExprKind::kTest:
      return Value(eval_test(e));
    case ExprKind::kNot:
      return Value(!truthy(eval(*e.args[0])));
    case ExprKind::kNeg:
      return negate(eval(*e.args[0]));
    case ExprKind::kPos:
      return negate(negate(eval(*e.args[0])));
    case ExprKind::kArith:
      return eval_arith(e);
    case ExprKind::kConcat:
      return eval_concat(e);
    case ExprKind::kCompare:
      return Value(eval_compare(e));
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
      return eval_cond(e);
  }
  return {};
}

Value Machine::eval_cond(const Expr& e) {
  if (truthy(eval(*e.args[0]))) return eval(*e.args[1]);
  if (e.args[2]) return eval(*e.args[2]);
  return undefined_because("the inline if-expression evaluated to false and no else section was defined.");
}

Value Machine::eval_sequence(const Expr& e) {
  std::vector<Value> items;
  items.reserve(e.args.size());
  for (const auto& arg : e.args) items.push_back(eval(*arg));
  const auto kind = e.kind == ExprKind::kList ? SequenceKind::kList : SequenceKind::kTuple;
  return make_sequence(meter_, kind, std::move(items));
}

Value Machine::eval_dict(const Expr& e) {
  DictMaker dict(meter_);
  for (std::size_t i = 0; i < e.args.size(); i += 2) {
    Value key = eval(*e.args[i]);
    dict.set(std::move(key), eval(*e.args[i + 1]));
  }
  return dict.take();
}

Value Machine::eval_item(const Expr& e) {
  const Value object = eval(*e.args[0]);
  const Expr& index = *e.args[1];
  if (index.kind != ExprKind::kSlice) {
    const Value i = eval(index);
    line_ = e.line;
    return subscript(object, i);
  }
  Value bounds[3];
  const Value* given[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!index.args[i]) continue;
    bounds[i] = eval(*index.args[i]);
    given[i] = &bounds[i];
  }
  line_ = e.line;
  return slice(object, given[0], given[1], given[2], meter_);
}

// A method that is called at once needs no object.
Value Machine::eval_call(const Expr& e) {
  const Expr& callee = *e.args[0];
  if (callee.kind == ExprKind::kAttr) {
    const Value self = eval(*callee.args[0]);
    const Method* method = self.is_undefined() || self.object() ? nullptr : find_method(self, callee.value.view());
    if (method) {
      Args args = eval_args(*e.call);
      line_ = e.line;
      return method->call(*this, self, args);
    }
    line_ = e.line;
    const Value function = attribute(self, callee.value.text_ref());
    Args args = eval_args(*e.call);
    line_ = e.line;
    return call(function, args);
  }
  const Value function = eval(callee);
  Args args = eval_args(*e.call);
  line_ = e.line;
  return call(function, args);
}

Value Machine::eval_filter(const Expr& e) {
  const Value input = e.args[0] ? eval(*e.args[0]) : *block_input_;
  if (!e.filter) fail(fmt::format("no filter named '{}'", e.value.view()));
  Args args = eval_args(*e.call);
  line_ = e.line;
  return e.filter->apply(*this, input, args);
}

bool Machine::eval_test(const Expr& e) {
  const Value subject = eval(*e.args[0]);
  if (!e.test) fail(fmt::format("no test named '{}'", e.value.view()));
  Args args = eval_args(*e.call);
  line_ = e.line;
  return e.test->holds(*this, subject, args);
}

Value Machine::eval_arith(const Expr& e) {
  Value v = eval(*e.args[0]);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    const Value right = eval(*e.args[i + 1]);
    line_ = e.line;
    v = arithmetic(e.ops[i], v, right, meter_);
  }
  return v;
}

Value Machine::eval_concat(const Expr& e) {
  std::string text;
  for (const auto& arg : e.args) append_str(text, eval(*arg), meter_);
  return make_text(meter_, std::move(text));
}

bool Machine::eval_compare(const Expr& e) {
  Value left = eval(*e.args[0]);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(*e.args[i + 1]);
    line_ = e.line;
    if (!holds(e.ops[i], left, right, meter_)) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace kvasir::text::jinja
