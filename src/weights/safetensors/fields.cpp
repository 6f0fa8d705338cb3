#include "weights/safetensors/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace kvasir::weights {

ConfigFields::ConfigFields(const FolderJson& object, const std::string& path, std::string prefix)
    : object_(object), path_(path), prefix_(std::move(prefix)) {}

void ConfigFields::bad(std::string_view name, const std::string& text) const {
  throw Error(Code::kBadInput, fmt::format("'{}{}' {}", prefix_, name, text), path_);
}
void ConfigFields::unsupported(std::string_view name, const std::string& text) const {
  throw Error(Code::kUnsupported, fmt::format("'{}{}' {}", prefix_, name, text), path_);
}

const FolderJson* ConfigFields::find(std::string_view name) const {
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool ConfigFields::is_null(std::string_view name) const {
  const auto it = object_.find(name);
  return it != object_.end() && it->is_null();
}

std::optional<std::int64_t> ConfigFields::integer_if(std::string_view name, std::int64_t low, std::int64_t high) const {
  const FolderJson* value = find(name);
  if (!value) return std::nullopt;
  const bool same = value->is_array() && !value->empty() &&
                    std::all_of(value->begin(), value->end(), [&](const FolderJson& x) { return x == value->front(); });
  if (same) value = &value->front();
  const bool fits = value->is_number_integer() &&
                    !(value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  const std::int64_t n = fits ? value->get<std::int64_t>() : 0;
  if (!fits || n < low || n > high)
    bad(name, fmt::format("is {}, expected an integer from {} to {}", value->dump().substr(0, 40), low, high));
  return n;
}

std::int64_t ConfigFields::integer(std::string_view name, std::int64_t low, std::int64_t high) const {
  const auto n = integer_if(name, low, high);
  if (!n) bad(name, "is missing");
  return *n;
}

std::optional<double> ConfigFields::number_if(std::string_view name) const {
  const FolderJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    bad(name, fmt::format("is {}, expected a number", value->dump().substr(0, 40)));
  return value->get<double>();
}

double ConfigFields::number(std::string_view name) const {
  const auto x = number_if(name);
  if (!x) bad(name, "is missing");
  return *x;
}

std::optional<std::string> ConfigFields::text_if(std::string_view name) const {
  const FolderJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) bad(name, "is no text");
  return value->get<std::string>();
}

std::optional<bool> ConfigFields::flag_if(std::string_view name) const {
  const FolderJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) bad(name, "is neither true nor false");
  return value->get<bool>();
}

const FolderJson* ConfigFields::object(std::string_view name) const {
  const FolderJson* value = find(name);
  if (value && !value->is_object()) bad(name, "is no object");
  return value;
}

const FolderJson* ConfigFields::array(std::string_view name) const {
  const FolderJson* value = find(name);
  if (value && !value->is_array()) bad(name, "is no array");
  return value;
}

std::vector<float> ConfigFields::floats(std::string_view name) const {
  const FolderJson* values = array(name);
  if (!values) bad(name, "is missing");
  std::vector<float> out;
  for (const FolderJson& v : *values) {
    const float x = v.is_number() ? v.get<float>() : 0.0f;
    if (!(x > 0.0f) || !std::isfinite(x))
      bad(name, fmt::format("holds {}, expected positive numbers", v.dump().substr(0, 40)));
    out.push_back(x);
  }
  return out;
}

}  // namespace kvasir::weights
