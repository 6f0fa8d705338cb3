#include "serve/body.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.hpp"

namespace kvasir::serve {
namespace {

constexpr std::uint64_t kMostKeyCost = 20'000'000;  // sum over keys of the keys before it in the same object

[[noreturn]] void bad_body(const std::string& message) {
  throw ApiException({.status = 400, .message = message, .code = "invalid_json"});
}

// Depth and keys, counted before anything is built. Text that is no JSON may be miscounted: the parser refuses it.
void check_structure(std::string_view text) {
  std::array<std::uint64_t, kDeepestJson + 1> keys{};
  std::size_t depth = 0;
  std::uint64_t cost = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepestJson) bad_body(fmt::format("the body nests deeper than {} levels", kDeepestJson));
      keys[depth] = 0;
    } else if (c == '}' || c == ']') {
      if (depth > 0) --depth;
    } else if (c == ':') {
      cost += ++keys[depth];
      if (cost > kMostKeyCost) bad_body("the body has objects with too many keys");
    }
  }
}

}  // namespace

Json parse_body(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) bad_body("the body is empty, expected JSON");
  check_structure(text);
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    // The library's message begins with its own name and number in brackets; what follows says line and column.
    const std::string what = e.what();
    const std::size_t end = what.find("] ");
    bad_body("the body is not valid JSON: " + (end == std::string::npos ? what : what.substr(end + 2)));
  }
}

void bad_field(const std::string& field, const std::string& message, const std::string& code) {
  throw ApiException({.status = 400, .message = "'" + field + "': " + message, .param = field, .code = code});
}

void unsupported(const std::string& field, const std::string& message) {
  bad_field(field, message, "unsupported_parameter");
}

std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return "a string";
  return dump(value);
}

namespace {

[[noreturn]] void wrong_type(const std::string& field, std::string_view expected, const Json& found) {
  bad_field(field, fmt::format("expected {}, found {}", expected, shown(found)), "invalid_type");
}

}  // namespace

Fields::Fields(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
  if (object.is_object()) return;
  if (prefix_.empty()) bad_body("expected a JSON object, found " + shown(object));
  wrong_type(prefix_.substr(0, prefix_.size() - 1), "an object", object);
}

const Json* Fields::find(std::string_view name) const {
  const auto it = object_.find(std::string(name));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) wrong_type(path(name), "true or false", *value);
  return value->get<bool>();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low, std::int64_t high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const auto expected = [&] { return fmt::format("an integer from {} to {}", low, high); };
  std::int64_t n = 0;
  if (value->is_number_unsigned()) {
    const auto u = value->get<std::uint64_t>();
    if (u > std::uint64_t{INT64_MAX})
      bad_field(path(name), fmt::format("{}, expected {}", u, expected()), "invalid_value");
    n = static_cast<std::int64_t>(u);
  } else if (value->is_number_integer()) {
    n = value->get<std::int64_t>();
  } else if (value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
             value->get<double>() == std::floor(value->get<double>())) {
    n = static_cast<std::int64_t>(value->get<double>());  // 16.0, as some languages write integers
  } else {
    wrong_type(path(name), expected(), *value);
  }
  if (n < low || n > high) bad_field(path(name), fmt::format("{}, expected {}", n, expected()), "invalid_value");
  return n;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const auto expected = [&] {
    return fmt::format("a number from {}{}", low, high < 3e38 ? fmt::format(" to {}", high) : "");
  };
  if (!value->is_number()) wrong_type(path(name), expected(), *value);
  const double x = value->get<double>();
  if (!(x >= low && x <= high)) bad_field(path(name), fmt::format("{}, expected {}", x, expected()), "invalid_value");
  return x;
}

const std::string* Fields::string(std::string_view name) const {
  const Json* value = find(name);
  if (value && !value->is_string()) wrong_type(path(name), "a string", *value);
  return value ? value->get_ptr<const std::string*>() : nullptr;
}

std::optional<OptionValue> Fields::option(std::string_view name, const OptionSpec& spec) const {
  const auto some = [](const auto& value) { return value ? std::optional<OptionValue>(*value) : std::nullopt; };
  if (spec.kind == OptionKind::kBool) return some(boolean(name));
  if (spec.kind == OptionKind::kInt) return some(integer(name, spec.int_low, spec.int_high));
  if (spec.kind == OptionKind::kFloat) return some(number(name, spec.low, spec.high));
  KVASIR_CHECK(spec.kind == OptionKind::kString);  // lists have forms of their own
  const std::string* text = string(name);
  if (!text) return std::nullopt;
  if (!spec.choices.empty() && std::find(spec.choices.begin(), spec.choices.end(), *text) == spec.choices.end())
    bad_field(path(name), fmt::format("'{}', expected {}", *text, spec.expects()), "invalid_value");
  return *text;
}

const Json* Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value && !value->is_object()) wrong_type(path(name), "an object", *value);
  return value;
}

const Json* Fields::array(std::string_view name) const {
  const Json* value = find(name);
  if (value && !value->is_array()) wrong_type(path(name), "an array", *value);
  return value;
}

std::vector<std::int32_t> read_ids(const Json& array, const std::string& field, std::int32_t vocabulary) {
  std::vector<std::int32_t> ids;
  ids.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    const Json& item = array[i];
    const std::string name = fmt::format("{}[{}]", field, i);
    if (!item.is_number_integer()) wrong_type(name, "a token id", item);
    const bool fits = item.is_number_unsigned() && item.get<std::uint64_t>() < static_cast<std::uint64_t>(vocabulary);
    if (!fits)
      bad_field(name, fmt::format("{}, expected a token id from 0 to {}", dump(item), vocabulary - 1), "invalid_value");
    ids.push_back(item.get<std::int32_t>());
  }
  return ids;
}

}  // namespace kvasir::serve
