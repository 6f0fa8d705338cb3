// Typed access to a model file's metadata. Every message names the file, the key, what was found and what was expected.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "weights/model_file.hpp"

namespace kvasir::weights {
namespace {

const char* type_name(const Value& value) {
  static constexpr const char* kNames[] = {
      "a boolean",          "an integer",           "an integer",           "a float",
      "a string",           "an array of booleans", "an array of integers", "an array of floats",
      "an array of strings"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value.index()];
}

std::string context(const std::string& path, std::string_view key) {
  return path.empty() ? fmt::format("metadata {}", key) : fmt::format("{}: metadata {}", path, key);
}

[[noreturn]] void wrong_type(const std::string& path, std::string_view key, const Value& found, const char* expected) {
  throw Error(Code::kBadInput, fmt::format("is {}, expected {}", type_name(found), expected), context(path, key));
}

[[noreturn]] void absent(const std::string& path, std::string_view key, const char* expected) {
  throw Error(Code::kBadInput, fmt::format("is missing, expected {}", expected), context(path, key));
}

// nullptr when the key is absent; throws when it holds something else than a T.
template <class T>
const T* typed(const Metadata& metadata, std::string_view key, const char* expected) {
  const Value* value = metadata.find(key);
  if (!value) return nullptr;
  if (const T* held = std::get_if<T>(value)) return held;
  wrong_type(metadata.path(), key, *value, expected);
}

}  // namespace

bool Metadata::has(std::string_view key) const { return values_.find(key) != values_.end(); }

const Value* Metadata::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

void Metadata::set(std::string key, Value value) { values_.insert_or_assign(std::move(key), std::move(value)); }

std::optional<std::int64_t> Metadata::get_int(std::string_view key, std::int64_t low, std::int64_t high) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(value)) {
    if (*i >= low && *i <= high) return *i;
    throw Error(Code::kBadInput, fmt::format("is {}, expected {} to {}", *i, low, high), context(path_, key));
  }
  if (const auto* u = std::get_if<std::uint64_t>(value)) {
    if (std::cmp_less_equal(low, *u) && std::cmp_less_equal(*u, high)) return static_cast<std::int64_t>(*u);
    throw Error(Code::kBadInput, fmt::format("is {}, expected {} to {}", *u, low, high), context(path_, key));
  }
  wrong_type(path_, key, *value, "an integer");
}

std::int64_t Metadata::require_int(std::string_view key, std::int64_t low, std::int64_t high) const {
  if (const auto i = get_int(key, low, high)) return *i;
  absent(path_, key, "an integer");
}

std::optional<double> Metadata::get_float(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* i = std::get_if<std::int64_t>(value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(value)) return static_cast<double>(*u);
  const auto* f = std::get_if<double>(value);
  if (!f) wrong_type(path_, key, *value, "a number");
  if (!std::isfinite(*f)) {
    throw Error(Code::kBadInput, fmt::format("is {}, expected a finite number", *f), context(path_, key));
  }
  return *f;
}

double Metadata::require_float(std::string_view key) const {
  if (const auto f = get_float(key)) return *f;
  absent(path_, key, "a number");
}

const std::string& Metadata::require_string(std::string_view key) const {
  if (const auto* s = typed<std::string>(*this, key, "a string")) return *s;
  absent(path_, key, "a string");
}

std::optional<std::string> Metadata::get_string(std::string_view key) const {
  if (const auto* s = typed<std::string>(*this, key, "a string")) return *s;
  return std::nullopt;
}

std::optional<bool> Metadata::get_bool(std::string_view key) const {
  if (const auto* b = typed<bool>(*this, key, "a boolean")) return *b;
  return std::nullopt;
}

const std::vector<std::string>* Metadata::get_strings(std::string_view key) const {
  return typed<std::vector<std::string>>(*this, key, "an array of strings");
}

const std::vector<std::int64_t>* Metadata::get_ints(std::string_view key) const {
  return typed<std::vector<std::int64_t>>(*this, key, "an array of integers");
}

const std::vector<double>* Metadata::get_floats(std::string_view key) const {
  return typed<std::vector<double>>(*this, key, "an array of floats");
}

}  // namespace kvasir::weights
