// What stands behind `is`.
#include <fmt/format.h>

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"
#include "text/jinja/operators.hpp"
#include "text/jinja/strings.hpp"

namespace kvasir::text::jinja {
namespace {

using Kind = Value::Kind;

// Tests of the value alone.
template <bool (*predicate)(const Value&)>
bool plain(Machine&, const Value& v, Args& args) {
  no_arguments(args, "the test");
  return predicate(v);
}

template <Op op>
bool compared(Machine& m, const Value& v, Args& args) {
  const auto [other] = bind(args, "the test", {"other"}, 1);
  return holds(op, v, *other, m.meter());
}

bool is_boolean(const Value& v) { return v.kind() == Value::Kind::kBool; }
// Python's Undefined has a method for being called, which then fails.
bool is_callable(const Value& v) { return v.is_undefined() || (v.object() && v.object()->callable()); }
bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_escaped(const Value& v) { return v.is_text() && v.text()->markup; }
bool is_true(const Value& v) { return v.kind() == Value::Kind::kBool && v.boolean(); }
bool is_false(const Value& v) { return v.kind() == Value::Kind::kBool && !v.boolean(); }
bool is_float(const Value& v) { return v.kind() == Kind::kReal; }
bool is_integer(const Value& v) { return v.kind() == Kind::kInt; }
bool is_mapping(const Value& v) { return v.dict() != nullptr; }
bool is_none(const Value& v) { return v.is_none(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_text(); }
// What has a length and items by index; that includes dicts, strings and, in Python, the undefined value.
bool is_sequence(const Value& v) {
  return v.is_undefined() || v.is_text() || v.dict() || (v.sequence() && v.sequence()->kind <= SequenceKind::kRange);
}

std::int64_t remainder(Machine& m, const Value& v, std::int64_t by) {
  const Value r = arithmetic(Op::kMod, v, Value(by), m.meter());
  return r.is_int() ? r.integer() : r.real() == 0 ? 0 : r.real() == 1 ? 1 : -1;
}

bool is_even(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "even");
  return remainder(m, v, 2) == 0;
}

bool is_odd(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "odd");
  return remainder(m, v, 2) == 1;
}

bool is_divisible(Machine& m, const Value& v, Args& args) {
  const auto [by] = bind(args, "divisibleby", {"num"}, 1);
  return remainder(m, v, int_or(by, 0, "divisibleby")) == 0;
}

bool is_lower(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "lower");
  const std::string text = to_str(v, m.meter());
  return lower(text) == text && upper(text) != text;
}

bool is_upper(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "upper");
  const std::string text = to_str(v, m.meter());
  return upper(text) == text && lower(text) != text;
}

bool is_same(Machine& m, const Value& v, Args& args) {
  const auto [other] = bind(args, "sameas", {"other"}, 1);
  if (v.kind() != other->kind()) return false;
  if (v.sequence()) return v.sequence() == other->sequence();
  if (v.dict()) return v.dict() == other->dict();
  return equal(v, *other, m.meter());
}

bool is_filter(Machine&, const Value& v, Args& args) {
  no_arguments(args, "filter");
  return v.is_text() && find_filter(v.view());
}

bool is_test(Machine&, const Value& v, Args& args) {
  no_arguments(args, "test");
  return v.is_text() && find_test(v.view());
}

constexpr Test kTests[] = {
    {"!=", compared<Op::kNe>},
    {"<", compared<Op::kLt>},
    {"<=", compared<Op::kLe>},
    {"==", compared<Op::kEq>},
    {">", compared<Op::kGt>},
    {">=", compared<Op::kGe>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", is_divisible},
    {"eq", compared<Op::kEq>},
    {"equalto", compared<Op::kEq>},
    {"escaped", plain<is_escaped>},
    {"even", is_even},
    {"false", plain<is_false>},
    {"filter", is_filter},
    {"float", plain<is_float>},
    {"ge", compared<Op::kGe>},
    {"greaterthan", compared<Op::kGt>},
    {"gt", compared<Op::kGt>},
    {"in", compared<Op::kIn>},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable>},
    {"le", compared<Op::kLe>},
    {"lessthan", compared<Op::kLt>},
    {"lower", is_lower},
    {"lt", compared<Op::kLt>},
    {"mapping", plain<is_mapping>},
    {"ne", compared<Op::kNe>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", is_odd},
    {"sameas", is_same},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", is_test},
    {"true", plain<is_true>},
    {"undefined", plain<is_undefined>},
    {"upper", is_upper},
};

}  // namespace

const Test* find_test(std::string_view name) {
  for (const Test& t : kTests)
    if (t.name == name) return &t;
  return nullptr;
}

}  // namespace kvasir::text::jinja
