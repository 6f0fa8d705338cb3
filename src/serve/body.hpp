// JSON bodies from strangers: bounded in depth and cost, and read field by field with errors that name the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/options.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

inline constexpr int kDeepestJson = 256;

// Throws ApiException(400) for what is no JSON text in UTF-8, nests deeper than kDeepestJson, or has objects with so
// many keys that keeping their order would take long (it is quadratic: about 6000 keys in one object).
Json parse_body(std::string_view text);

[[noreturn]] void bad_field(const std::string& field, const std::string& message, const std::string& code);
[[noreturn]] void unsupported(const std::string& field, const std::string& message);

// "a string", "an array", "-1.5": how a message shows what was found.
std::string shown(const Json& value);

// The fields of an object. A field that is null counts as absent; fields that are never asked for are ignored.
// `prefix` is put before names in messages ("stream_options.").
class Fields {
 public:
  // Throws ApiException unless `object` is an object; it must outlive this.
  explicit Fields(const Json& object, std::string prefix = {});

  const Json* find(std::string_view name) const;  // nullptr: absent or null
  std::string path(std::string_view name) const { return prefix_ + std::string(name); }

  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high) const;
  std::optional<double> number(std::string_view name, double low, double high) const;
  const std::string* string(std::string_view name) const;
  // A value by a row of a table of options, with its range and its words.
  std::optional<OptionValue> option(std::string_view name, const OptionSpec& spec) const;
  const Json* object(std::string_view name) const;
  const Json* array(std::string_view name) const;

 private:
  const Json& object_;
  std::string prefix_;
};

// Token ids of an array; `field` names it. Throws ApiException for anything but integers in [0, vocabulary).
std::vector<std::int32_t> read_ids(const Json& array, const std::string& field, std::int32_t vocabulary);

}  // namespace kvasir::serve
