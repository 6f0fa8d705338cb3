// Bounds of the number of things in a JSON Schema: minItems, maxLength, minProperties and the like.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/json.hpp"
#include "text/grammar.hpp"

namespace kvasir::text {

inline constexpr std::int64_t kMostCount = 1'000'000;  // of items, characters and properties
inline constexpr std::size_t kMostCounted = 64;        // properties and values whose number is bounded

// A path within a schema, for messages.
std::string below_path(const std::string& path, std::string_view name);
// Throws Error(kBadInput).
[[noreturn]] void refuse_schema(const std::string& path, const std::string& why);

// Throws Error(kBadInput) unless it is an integer from 0 to kMostCount.
std::int32_t read_count(const Json& value, const std::string& path);

// The strictest of what several schemas say.
struct Counts {
  std::int32_t least = 0, most = Grammar::kUnlimited;
  std::string most_path;

  bool none() const { return most != Grammar::kUnlimited && most < least; }
  bool any() const { return least > 0 || most != Grammar::kUnlimited; }
  void at_most(std::int32_t n) {
    if (most == Grammar::kUnlimited || n < most) most = n;
  }
  // Throws as read_count, and where the schema's own bounds allow nothing.
  void add(const Json* low, const Json* high, const std::string& path, const char* low_name, const char* high_name);
};

}  // namespace kvasir::text
