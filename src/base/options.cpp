#include "base/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace kvasir {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytes = 40;  // of a wrong value, in a message

// A wrong value as a message may show it: short, one line, printable, cut between characters.
std::string shown(std::string_view text) {
  std::size_t n = std::min(text.size(), kShownBytes);
  while (n < text.size() && n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  std::string out;
  for (char c : text.substr(0, n)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return n < text.size() ? out + "…" : out;
}

// Containers are not printed: printing recurses, and the nesting is the input's choice.
std::string shown_json(const json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  return shown(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

std::string shown_value(const OptionValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return fmt::format("{}", *d);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return fmt::format("{}", fmt::join(std::get<std::vector<std::string>>(value), ", "));
}

[[noreturn]] void wrong(const OptionSpec& spec, const std::string& found, const std::string& context,
                        const std::string& hint = {}) {
  throw Error(Code::kBadInput, "expected " + spec.expects() + ", found '" + shown(found) + "'" + hint, context);
}

template <class Number>
Number parse_number(const OptionSpec& spec, std::string_view text, const std::string& context) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc{} || end != text.data() + text.size())
    wrong(spec, std::string(text), context);
  return value;
}

std::int64_t parse_int(const OptionSpec& spec, std::string_view text, const std::string& context) {
  std::int64_t value = 0;
  if (spec.unit != "tokens") return parse_number<std::int64_t>(spec, text, context);
  if (!parse_count(text, &value)) wrong(spec, std::string(text), context);
  return value;
}

bool parse_bool(const OptionSpec& spec, std::string_view text, const std::string& context) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  wrong(spec, std::string(text), context);
}

std::string json_string(const OptionSpec& spec, const json& value, const std::string& context) {
  if (!value.is_string()) wrong(spec, shown_json(value), context);
  return value.get<std::string>();
}

std::int64_t json_int(const OptionSpec& spec, const json& value, const std::string& context) {
  const bool fits =
      value.is_number_unsigned() ? value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX} : value.is_number_integer();
  if (!fits) wrong(spec, shown_json(value), context);
  return value.get<std::int64_t>();
}

void check_choice(const OptionSpec& spec, const std::string& value, const std::string& context) {
  if (spec.choices.empty() || std::count(spec.choices.begin(), spec.choices.end(), value)) return;
  wrong(spec, value, context, did_you_mean(value, spec.choices));
}

std::string range_text(const std::string& low, const std::string& high) {
  if (!low.empty() && !high.empty()) return " from " + low + " to " + high;
  if (!low.empty()) return " of at least " + low;
  if (!high.empty()) return " of at most " + high;
  return "";
}

// A bar inside a cell would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

json to_json_value(const OptionValue& value) {
  return std::visit([](const auto& v) { return json(v); }, value);
}

}  // namespace

std::string OptionSpec::expects() const {
  const auto float_bound = [](double v) { return std::abs(v) < 3e38 ? fmt::format("{}", v) : std::string(); };
  const auto int_bound = [](std::int64_t v) {
    const bool open = v == INT64_MIN || v == INT64_MAX || v == INT32_MIN;
    return open ? std::string() : std::to_string(v);
  };
  if (kind == OptionKind::kBool) return "true or false";
  if (kind == OptionKind::kInt) return "an integer" + range_text(int_bound(int_low), int_bound(int_high));
  if (kind == OptionKind::kFloat) return "a number" + range_text(float_bound(low), float_bound(high));
  const std::string one = choices.empty() ? "text" : fmt::format("one of {}", fmt::join(choices, ", "));
  return kind == OptionKind::kString ? one : "a list of strings" + (choices.empty() ? "" : ", each " + one);
}

bool parse_count(std::string_view text, std::int64_t* to) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc{}) return false;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" || unit == "k" ? 10 : unit == "M" || unit == "m" ? 20 : -1;
  if (shift < 0 || value > (INT64_MAX >> shift) || value < (INT64_MIN >> shift)) return false;
  *to = value * (std::int64_t{1} << shift);
  return true;
}

OptionValue option_from_text(const OptionSpec& spec, std::string_view text, const std::string& context) {
  switch (spec.kind) {
    case OptionKind::kBool:
      return parse_bool(spec, text, context);
    case OptionKind::kInt:
      return parse_int(spec, text, context);
    case OptionKind::kFloat:
      return parse_number<double>(spec, text, context);
    case OptionKind::kString:
      return std::string(text);
    case OptionKind::kStrings:
      return std::vector<std::string>{std::string(text)};
  }
  throw std::logic_error("option kind");
}

OptionValue option_from_json(const OptionSpec& spec, const json& value, const std::string& context) {
  switch (spec.kind) {
    case OptionKind::kBool:
      if (!value.is_boolean()) wrong(spec, shown_json(value), context);
      return value.get<bool>();
    case OptionKind::kInt:
      return json_int(spec, value, context);
    case OptionKind::kFloat:
      if (!value.is_number()) wrong(spec, shown_json(value), context);
      return value.get<double>();
    case OptionKind::kString:
      return json_string(spec, value, context);
    case OptionKind::kStrings: {
      if (!value.is_array()) wrong(spec, shown_json(value), context);
      std::vector<std::string> items;
      for (const json& item : value) items.push_back(json_string(spec, item, context));
      return items;
    }
  }
  throw std::logic_error("option kind");
}

void check_option(const OptionSpec& spec, const OptionValue& value, const std::string& context) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) {
    if (*i < spec.int_low || *i > spec.int_high) wrong(spec, shown_value(value), context);
  } else if (const auto* d = std::get_if<double>(&value)) {
    if (!std::isfinite(*d) || *d < spec.low || *d > spec.high) wrong(spec, shown_value(value), context);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    check_choice(spec, *s, context);
  } else if (const auto* items = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& item : *items) check_choice(spec, item, context);
  }
}

void check_option_keys(std::span<const OptionSpec> specs, const json& value, const std::string& context) {
  if (!value.is_object()) throw Error(Code::kBadInput, "expected an object, found " + shown_json(value), context);
  std::vector<std::string> names;
  for (const OptionSpec& s : specs) names.push_back(s.name);
  for (const auto& [key, unused] : value.items())
    if (!std::count(names.begin(), names.end(), key))
      throw Error(Code::kBadInput, "unknown option '" + shown(key) + "'" + did_you_mean(key, names), context);
}

nlohmann::ordered_json options_to_json(std::span<const OptionSpec> specs, std::span<const OptionValue> values) {
  auto out = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < specs.size(); ++i) std::visit([&](const auto& v) { out[specs[i].name] = v; }, values[i]);
  return out;
}

std::string option_markdown(std::string_view title, std::span<const OptionSpec> specs,
                            std::span<const OptionValue> defaults) {
  std::string out = fmt::format("### {}\n\n| flag | key | value | default | meaning |\n|---|---|---|---|---|\n", title);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const OptionSpec& s = specs[i];
    const std::string flag = s.letter ? fmt::format("`-{}` `{}`", s.letter, s.flag) : "`" + s.flag + "`";
    const std::string unit = s.unit.empty() ? "" : " (" + s.unit + ")";
    const std::string start = to_json_value(defaults[i]).dump(-1, ' ', false, json::error_handler_t::replace);
    out += fmt::format("| {} | `{}` | {}{} | `{}` | {} |\n", flag, s.name, cell(s.expects()), cell(unit), cell(start),
                       cell(s.help));
  }
  return out;
}

json parse_json(std::string_view text, const std::string& context) {
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    // The library's message begins with its own name and number in brackets; what follows says line and column.
    const std::string what = e.what();
    const std::size_t end = what.find("] ");
    throw Error(Code::kBadInput, "not valid JSON: " + (end == std::string::npos ? what : what.substr(end + 2)),
                context);
  }
}

namespace detail {

OptionSpec make_spec(std::string name, OptionInfo info, OptionKind kind, double type_high) {
  OptionSpec spec;
  static_cast<OptionInfo&>(spec) = std::move(info);
  spec.name = std::move(name);
  spec.flag = (spec.name.size() == 1 ? "-" : "--") + spec.name;
  std::replace(spec.flag.begin(), spec.flag.end(), '_', '-');
  spec.kind = kind;
  if (kind == OptionKind::kFloat) {
    spec.low = std::max(spec.low, -type_high);
    spec.high = std::min(spec.high, type_high);
  }
  return spec;
}

OptionSpec make_int_spec(std::string name, OptionInfo info, std::int64_t type_low, std::int64_t type_high) {
  const double low = info.low, high = info.high;
  OptionSpec spec = make_spec(std::move(name), std::move(info), OptionKind::kInt, 0);
  // 2^63 is a double but no int64: compare before casting.
  spec.int_low = low > static_cast<double>(type_low) ? static_cast<std::int64_t>(std::ceil(low)) : type_low;
  spec.int_high = high < static_cast<double>(type_high) ? static_cast<std::int64_t>(std::floor(high)) : type_high;
  return spec;
}

double shortest(float value) {
  if (!std::isfinite(value)) return value;
  const std::string text = fmt::format("{}", value);
  double out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

void check_unique(std::span<const OptionSpec> specs) {
  std::set<std::string> names;
  std::set<char> letters;
  for (const OptionSpec& s : specs) {
    KVASIR_CHECK(!s.name.empty() && names.insert(s.name).second);
    KVASIR_CHECK(s.letter == 0 || letters.insert(s.letter).second);
  }
}

const json* json_member(const json& object, const std::string& key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

}  // namespace detail
}  // namespace kvasir
