// Filters of numbers and of values of any kind, and the look-up of all filters.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"
#include "text/jinja/operators.hpp"
#include "text/jinja/strings.hpp"

namespace kvasir::text::jinja {
namespace {

Value filter_abs(Machine&, const Value& v, Args& args) {
  no_arguments(args, "abs");
  if (v.undefined()) fail_undefined(*v.undefined());
  if (v.is_int()) return v.integer() < 0 ? negate(v) : Value(v.integer());
  if (!v.is_number()) fail(fmt::format("bad operand type for abs(): '{}'", type_name(v)));
  return Value(std::fabs(v.real()));
}

Value filter_attr(Machine& m, const Value& v, Args& args) {
  const auto [name] = bind(args, "attr", {"name"}, 1);
  view_or(name, {}, "attr");
  if (v.undefined()) fail_undefined(*v.undefined());
  return v.object() ? v.object()->attribute(m, name->text_ref()) : method_or_undefined(m, v, name->text_ref());
}

Value filter_default(Machine&, const Value& v, Args& args) {
  const auto [otherwise, boolean] = bind(args, "default", {"default_value", "boolean"});
  if (!v.is_undefined() && (!bool_or(boolean, false) || truthy(v))) return v;
  return otherwise ? *otherwise : Value(std::string());
}

Value filter_length(Machine&, const Value& v, Args& args) {
  no_arguments(args, "length");
  const std::int64_t n = length(v);
  if (n < 0) fail(fmt::format("object of type '{}' has no len()", type_name(v)));
  return Value(n);
}

std::string without_underscores(std::string_view text) {
  std::string out(strip_text(text, nullptr, true, true));
  for (std::size_t i = 1; i + 1 < out.size(); ++i)
    if (out[i] == '_' && std::isalnum(static_cast<unsigned char>(out[i - 1])) &&
        std::isalnum(static_cast<unsigned char>(out[i + 1]))) {
      out.erase(i--, 1);
    }
  return out;
}

// float(text)
std::optional<double> parse_real(std::string_view text) {
  const std::string plain = without_underscores(text);
  const char *begin = plain.data(), *end = begin + plain.size();
  if (begin != end && *begin == '+' && begin + 1 != end && begin[1] != '-') ++begin;
  double d = 0;
  const auto [stop, error] = std::from_chars(begin, end, d);
  if (begin == end || stop != end || error == std::errc::invalid_argument) return {};
  if (error == std::errc::result_out_of_range) return plain[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  return d;
}

// int(text, base)
std::optional<std::int64_t> parse_int(std::string_view text, int base) {
  std::string plain = without_underscores(text);
  std::size_t at = !plain.empty() && (plain[0] == '-' || plain[0] == '+') ? 1 : 0;
  const bool negative = at == 1 && plain[0] == '-';
  const char letter = at + 1 < plain.size() && plain[at] == '0' ? static_cast<char>(plain[at + 1] | 0x20) : '\0';
  const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (named && (base == named || base == 0)) at += 2;
  if (base == 0) base = named ? named : 10;
  std::uint64_t u = 0;
  const char* end = plain.data() + plain.size();
  const auto [stop, error] = std::from_chars(plain.data() + at, end, u, base);
  if (at >= plain.size() || stop != end) return {};
  if (error != std::errc{} || u > static_cast<std::uint64_t>(INT64_MAX)) fail("integers are limited to 64 bits here");
  return negative ? -static_cast<std::int64_t>(u) : static_cast<std::int64_t>(u);
}

Value filter_int(Machine&, const Value& v, Args& args) {
  const auto [otherwise, base] = bind(args, "int", {"default", "base"});
  const std::int64_t radix = int_or(base, 10, "int");
  if (v.undefined()) fail_undefined(*v.undefined());
  if (v.is_int()) return Value(v.integer());
  std::optional<double> d;
  if (v.is_text()) {
    if (radix != 0 && (radix < 2 || radix > 36)) return otherwise ? *otherwise : Value(std::int64_t{0});
    if (const auto i = parse_int(v.view(), static_cast<int>(radix))) return Value(*i);
    d = parse_real(v.view());
  } else if (v.is_number()) {
    d = v.real();
  }
  if (!d || !std::isfinite(*d)) return otherwise ? *otherwise : Value(std::int64_t{0});
  if (std::fabs(*d) >= 9.2e18) fail("integers are limited to 64 bits here");
  return Value(static_cast<std::int64_t>(*d));
}

Value filter_float(Machine&, const Value& v, Args& args) {
  const auto [otherwise] = bind(args, "float", {"default"});
  if (v.undefined()) fail_undefined(*v.undefined());
  if (v.is_number()) return Value(v.real());
  if (v.is_text())
    if (const auto d = parse_real(v.view())) return Value(*d);
  return otherwise ? *otherwise : Value(0.0);
}

// round(d, digits): exact ties go to the even digit, as in the decimal expansion of the binary number.
double round_to(double d, std::int64_t digits) {
  if (!std::isfinite(d) || digits > 320) return d;
  if (digits < -308) return std::copysign(0.0, d);
  if (digits < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(d / scale) * scale;
  }
  char text[1024];
  const int n = std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), d);
  double rounded = d;
  std::from_chars(text, text + n, rounded);
  return rounded;
}

Value filter_round(Machine&, const Value& v, Args& args) {
  const auto [precision, method] = bind(args, "round", {"precision", "method"});
  const std::string_view how = view_or(method, "common", "round");
  const std::int64_t digits = int_or(precision, 0, "round");
  if (v.undefined()) fail_undefined(*v.undefined());
  if (!v.is_number()) fail(fmt::format("round: expected a number, got {}", type_name(v)));
  if (how == "common") {
    if (v.is_int() && digits >= 0) return Value(v.integer());
    const double rounded = round_to(v.real(), digits);
    return v.is_int() && std::fabs(rounded) < 9.2e18 ? Value(static_cast<std::int64_t>(rounded)) : Value(rounded);
  }
  if (how != "ceil" && how != "floor") fail("round: method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(digits, -300, 300)));
  const double scaled = v.real() * scale;
  return Value((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value filter_tojson(Machine& m, const Value& v, Args& args) {
  const auto [ascii, indent, separators, sort_keys] =
      bind(args, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bool_or(ascii, false);
  style.sort_keys = bool_or(sort_keys, false);
  if (indent && !indent->is_none()) {
    style.lines = true;
    style.item_separator = ",";
    if (indent->is_text()) {
      style.indent = indent->view();
    } else {
      const std::int64_t n = int_or(indent, 0, "tojson");
      if (n > 1000) fail("tojson: the indent is limited to 1000");
      style.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, n)), ' ');
    }
  }
  if (separators && !separators->is_none()) {
    const Sequence* s = separators->sequence();
    if (!s || s->items.size() != 2) fail("tojson: separators must be a pair of strings");
    style.item_separator = view_or(&s->items[0], {}, "tojson");
    style.key_separator = view_or(&s->items[1], {}, "tojson");
  }
  std::string out;
  append_json(out, v, style, m.meter());
  return make_text(m.meter(), std::move(out));
}

constexpr Filter kFilters[] = {
    {"abs", filter_abs},         {"attr", filter_attr},     {"count", filter_length}, {"d", filter_default},
    {"default", filter_default}, {"float", filter_float},   {"int", filter_int},      {"length", filter_length},
    {"round", filter_round},     {"tojson", filter_tojson},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  for (const auto filters : {std::span<const Filter>(kFilters), text_filters(), sequence_filters()})
    for (const Filter& f : filters)
      if (f.name == name) return &f;
  return nullptr;
}

}  // namespace kvasir::text::jinja
