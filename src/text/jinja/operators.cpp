#include "text/jinja/operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/strings.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">="};

[[noreturn]] void unsupported(Op op, const Value& a, const Value& b) {
  if (a.undefined()) fail_undefined(*a.undefined());
  if (b.undefined()) fail_undefined(*b.undefined());
  if (op == Op::kAdd && (a.is_text() || (a.sequence() && a.sequence()->kind <= SequenceKind::kTuple))) {
    fail(fmt::format("can only concatenate {0} (not \"{1}\") to {0}", type_name(a), type_name(b)));
  }
  fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", kSigns[static_cast<int>(op)], type_name(a),
                   type_name(b)));
}

// Python's integers have no bounds; these have 64 bits and say so.
std::int64_t operators_checked(bool overflow, std::int64_t result) {
  if (overflow) fail("integers are limited to 64 bits here");
  return result;
}

std::int64_t int_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1) operators_checked(__builtin_mul_overflow(result, base, &result), 0);
    exponent >>= 1;
    if (exponent) operators_checked(__builtin_mul_overflow(base, base, &base), 0);
  }
  return result;
}

// Quotient towards minus infinity, remainder with the divisor's sign.
std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  operators_checked(b == -1 && a == INT64_MIN, 0);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Value int_arithmetic(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  switch (op) {
    case Op::kAdd: {
      const bool over = __builtin_add_overflow(a, b, &r);
      return Value(operators_checked(over, r));
    }
    case Op::kSub: {
      const bool over = __builtin_sub_overflow(a, b, &r);
      return Value(operators_checked(over, r));
    }
    case Op::kMul: {
      const bool over = __builtin_mul_overflow(a, b, &r);
      return Value(operators_checked(over, r));
    }
    case Op::kPow:
      return b < 0 ? Value(std::pow(static_cast<double>(a), static_cast<double>(b))) : Value(int_power(a, b));
    default:
      break;
  }
  if (b == 0) fail(op == Op::kDiv ? "division by zero" : "integer division or modulo by zero");
  if (op == Op::kDiv) return Value(static_cast<double>(a) / static_cast<double>(b));
  return Value(op == Op::kFloorDiv ? floor_div(a, b) : floor_mod(a, b));
}

double real_mod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r == 0 ? std::copysign(0.0, b) : r;
}

Value real_arithmetic(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value(a + b);
    case Op::kSub:
      return Value(a - b);
    case Op::kMul:
      return Value(a * b);
    case Op::kPow:
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) fail("float division by zero");
  if (op == Op::kDiv) return Value(a / b);
  return op == Op::kFloorDiv ? Value(std::floor((a - real_mod(a, b)) / b + 0.5)) : Value(real_mod(a, b));
}

Value add_texts(const Value& a, const Value& b, Meter& meter) {
  const bool markup = a.text()->markup || b.text()->markup;
  const auto part = [&](const Value& v) {
    return markup && !v.text()->markup ? escape_html(v.view()) : std::string(v.view());
  };
  if (markup) {
    meter.allocate(12, a.view().size() + b.view().size());  // "&#34;" is 5 bytes
    return make_text(meter, part(a) + part(b), true);
  }
  const std::size_t size = a.view().size() + b.view().size();
  meter.check_output(size);
  meter.scan(size);
  std::string sum;
  sum.reserve(size);
  sum += a.view();
  sum += b.view();
  return make_text(meter, std::move(sum));
}

Value add_sequences(const Sequence& a, const Sequence& b, Meter& meter) {
  meter.allocate(a.items.size() + b.items.size(), sizeof(Value));
  std::vector<Value> items;
  items.reserve(a.items.size() + b.items.size());
  items.insert(items.end(), a.items.begin(), a.items.end());
  items.insert(items.end(), b.items.begin(), b.items.end());
  return make_sequence(meter, a.kind, std::move(items));
}

// "ab" * 3, [1] * 3
Value repeat(const Value& v, std::int64_t times, Meter& meter) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (v.is_text()) return make_text(meter, repeat_text(v.view(), n, meter), v.text()->markup);
  const auto& from = v.sequence()->items;
  meter.allocate(n, from.size() * sizeof(Value));
  std::vector<Value> items;
  if (!from.empty()) {
    items.reserve(n * from.size());
    for (std::size_t i = 0; i < n; ++i) items.insert(items.end(), from.begin(), from.end());
  }
  return make_sequence(meter, v.sequence()->kind, std::move(items));
}

bool repeatable(const Value& v) { return v.is_text() || (v.sequence() && v.sequence()->kind <= SequenceKind::kTuple); }

bool contains(const Value& container, const Value& v, Meter& meter) {
  if (container.is_text()) {
    if (v.undefined()) fail_undefined(*v.undefined());
    if (!v.is_text()) fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(v)));
    meter.scan(container.view().size());
    return find_text(container.view(), v.view()) != std::string_view::npos;
  }
  if (const Dict* d = container.dict()) {
    if (!hashable(v)) fail(fmt::format("unhashable type: '{}'", type_name(v)));
    return find(*d, v, meter) != nullptr;
  }
  if (!is_iterable(container)) fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  const auto items = iterate(container, meter);
  for (const auto& candidate : items->items)
    if (equal(candidate, v, meter)) return true;
  return false;
}

std::optional<std::int64_t> slice_bound(const Value* v) {
  if (!v || v->is_none()) return {};
  if (v->undefined()) fail_undefined(*v->undefined());
  if (!v->is_int()) fail("slice indices must be integers or None");
  return v->integer();
}

// Python's slice.indices: the positions that [begin:end:step] takes of `n`.
std::vector<std::size_t> slice_positions(std::int64_t n, const Value* begin, const Value* end, const Value* step,
                                         Meter& meter) {
  const std::int64_t by = slice_bound(step).value_or(1);
  if (by == 0) fail("slice step cannot be zero");
  const std::int64_t low = by > 0 ? 0 : -1, high = by > 0 ? n : n - 1;
  const auto clip = [&](std::optional<std::int64_t> i, std::int64_t otherwise) {
    if (!i) return otherwise;
    return std::clamp(*i < 0 ? std::max(*i, -n - 1) + n : *i, low, high);
  };
  std::int64_t i = clip(slice_bound(begin), by > 0 ? low : high);
  const std::int64_t stop = clip(slice_bound(end), by > 0 ? high : low);
  std::vector<std::size_t> positions;
  if (by > 0 ? i < stop : i > stop) {
    const std::uint64_t span = static_cast<std::uint64_t>(by > 0 ? stop - i : i - stop);
    const std::uint64_t stride = by > 0 ? static_cast<std::uint64_t>(by) : 0 - static_cast<std::uint64_t>(by);
    const std::uint64_t count = (span - 1) / stride + 1;
    meter.allocate(count, sizeof(std::size_t));
    positions.reserve(count);
    for (std::uint64_t k = 0; k < count; ++k) {
      const std::uint64_t offset = k * stride;  // at most `span`
      positions.push_back(static_cast<std::size_t>(by > 0 ? static_cast<std::uint64_t>(i) + offset
                                                          : static_cast<std::uint64_t>(i) - offset));
    }
  }
  return positions;
}

Value slice_text(std::string_view text, const std::vector<std::size_t>& positions, Meter& meter) {
  meter.scan(text.size());
  const auto starts = character_starts(text, meter);
  std::string out;
  for (const auto p : positions) out += text.substr(starts[p], starts[p + 1] - starts[p]);
  return make_text(meter, std::move(out));
}

}  // namespace

Value arithmetic(Op op, const Value& a, const Value& b, Meter& meter) {
  if (a.is_int() && b.is_int()) return int_arithmetic(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return real_arithmetic(op, a.real(), b.real());
  if (op == Op::kAdd && a.is_text() && b.is_text()) return add_texts(a, b, meter);
  const auto *s = a.sequence(), *t = b.sequence();
  if (op == Op::kAdd && s && t && s->kind == t->kind && s->kind <= SequenceKind::kTuple) {
    return add_sequences(*s, *t, meter);
  }
  if (op == Op::kMul && b.is_int() && repeatable(a)) return repeat(a, b.integer(), meter);
  if (op == Op::kMul && a.is_int() && repeatable(b)) return repeat(b, a.integer(), meter);
  if (op == Op::kMod && a.is_text()) return make_text(meter, percent_format(a.view(), b, meter), a.text()->markup);
  unsupported(op, a, b);
}

Value negate(const Value& v) {
  if (v.undefined()) fail_undefined(*v.undefined());
  if (v.is_int()) {
    operators_checked(v.integer() == INT64_MIN, 0);
    return Value(-v.integer());
  }
  if (!v.is_number()) fail(fmt::format("bad operand type for unary -: '{}'", type_name(v)));
  return Value(-v.real());
}

bool holds(Op op, const Value& a, const Value& b, Meter& meter) {
  // Comparisons with nan are false.
  const bool nan = (a.kind() == Value::Kind::kReal && std::isnan(a.real()) && b.is_number()) ||
                   (b.kind() == Value::Kind::kReal && std::isnan(b.real()) && a.is_number());
  switch (op) {
    case Op::kEq:
      return equal(a, b, meter);
    case Op::kNe:
      return !equal(a, b, meter);
    case Op::kLt:
      return !nan && compare(a, b, meter, "<") < 0;
    case Op::kLe:
      return !nan && compare(a, b, meter, "<=") <= 0;
    case Op::kGt:
      return !nan && compare(a, b, meter, ">") > 0;
    case Op::kGe:
      return !nan && compare(a, b, meter, ">=") >= 0;
    case Op::kIn:
      return contains(b, a, meter);
    default:
      return !contains(b, a, meter);
  }
}

Value item(const Value& v, const Value& index, Meter& meter) {
  if (v.undefined()) fail_undefined(*v.undefined());
  if (const Dict* d = v.dict()) {
    if (hashable(index))
      if (const Value* found = find(*d, index, meter)) return *found;
  } else if (index.is_int() && (v.is_text() || (v.sequence() && v.sequence()->kind <= SequenceKind::kRange))) {
    const std::int64_t n = length(v);
    const std::int64_t i = index.integer() < 0 ? index.integer() + n : index.integer();
    if (i >= 0 && i < n) {
      if (v.sequence()) return v.sequence()->items[static_cast<std::size_t>(i)];
      meter.scan(v.view().size());
      std::size_t at = 0;
      for (std::int64_t k = 0; k < i; ++k) at += unicode::decode_char(v.view().substr(at)).size;
      return make_text(meter, std::string(v.view().substr(at, unicode::decode_char(v.view().substr(at)).size)));
    }
    return undefined_because(fmt::format("{} object has no element {}", type_name(v), index.integer()));
  }
  if (index.is_text()) return undefined_attribute(v, index.text_ref());
  if (index.is_int()) {
    return undefined_because(fmt::format("{} object has no element {}", type_name(v), index.integer()));
  }
  return undefined_because(fmt::format("{} object has no such element", type_name(v)));
}

Value slice(const Value& v, const Value* begin, const Value* end, const Value* step, Meter& meter) {
  if (v.undefined()) fail_undefined(*v.undefined());
  const Sequence* s = v.sequence();
  if (v.dict()) fail("unhashable type: 'slice'");
  if (!v.is_text() && (!s || s->kind > SequenceKind::kRange)) {
    fail(fmt::format("'{}' object is not subscriptable", type_name(v)));
  }
  const auto positions = slice_positions(length(v), begin, end, step, meter);
  if (v.is_text()) return slice_text(v.view(), positions, meter);
  std::vector<Value> items;
  items.reserve(positions.size());
  for (const auto p : positions) items.push_back(s->items[p]);
  return make_sequence(meter, s->kind, std::move(items));
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace kvasir::text::jinja
