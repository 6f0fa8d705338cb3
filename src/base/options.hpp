// One options table per struct: from it come the command line's flags (cli/flags.hpp), the JSON form and the
// documentation, so that none of them can disagree with the struct.
//
//   struct SamplingOptions { double temperature = 0.8; std::int64_t seed = 0; std::vector<std::string> stop; };
//   const OptionTable<SamplingOptions>& sampling_table() {
//     static const OptionTable<SamplingOptions> table{"sampling", {
//         {"temperature", &SamplingOptions::temperature, {.help = "0 is greedy", .low = 0, .high = 100}},
//         {"seed", &SamplingOptions::seed, {.help = "of the random numbers", .low = 0}},
//         {"stop", &SamplingOptions::stop, {.help = "end before this text"}}}};
//     return table;
//   }
//
// The name of an option is its JSON key ("top_k"); its flag is derived from it ("--top-k", or "-n"
// when it is one letter). The default is the value in
// a value-initialised struct. Every error is Error(kBadInput) that names the option, what was found and what is
// allowed.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.hpp"

namespace kvasir {

// What the author of a table says about one option besides name and member.
struct OptionInfo {
  std::string help;   // one line, no full stop
  std::string unit;   // "tokens", "bytes", …; empty when it has none
  char letter = 0;    // short flag: 'n' for -n; 0 for none
  std::string alias;  // another flag for the same: "--tiers"; empty for none
  // Inclusive range of a number; for strings and lists, of nothing.
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices;  // allowed strings; empty allows all
  std::string placeholder;           // how the value is called in the help: "TEXT", "FILE"; empty: by type
  bool required = false;             // on a command line; JSON may leave it out
};

enum class OptionKind { kBool, kInt, kFloat, kString, kStrings };

using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;  // by OptionKind

struct OptionSpec : OptionInfo {
  std::string name;  // JSON key, [a-z][a-z0-9_]*
  std::string flag;  // "--top-k"
  OptionKind kind = OptionKind::kString;
  std::int64_t int_low = 0;  // kInt: the range cut to what the member can hold
  std::int64_t int_high = 0;

  std::string expects() const;  // "an integer from 1 to 512", "one of f16, f32", "true or false"
};

// An integer as people write counts of tokens: "4096", "128K", "1M", of 1024 and 1048576. False: it is none.
bool parse_count(std::string_view text, std::int64_t* to);

// Text as given on a command line, or JSON, to a value of the spec's kind within its range. `context` begins the
// message.
OptionValue option_from_text(const OptionSpec& spec, std::string_view text, const std::string& context);
OptionValue option_from_json(const OptionSpec& spec, const nlohmann::json& json, const std::string& context);
void check_option(const OptionSpec& spec, const OptionValue& value, const std::string& context);
nlohmann::ordered_json options_to_json(std::span<const OptionSpec> specs, std::span<const OptionValue> values);
std::string option_markdown(std::string_view title, std::span<const OptionSpec> specs,
                            std::span<const OptionValue> defaults);

// Throws unless `json` is an object whose keys are all in `specs`.
void check_option_keys(std::span<const OptionSpec> specs, const nlohmann::json& json, const std::string& context);

// Parses a JSON text. Throws Error(kBadInput) with the line and column of a syntax error.
nlohmann::json parse_json(std::string_view text, const std::string& context);

namespace detail {

// `type_low` and `type_high`: what the member can hold.
OptionSpec make_int_spec(std::string name, OptionInfo info, std::int64_t type_low, std::int64_t type_high);
OptionSpec make_spec(std::string name, OptionInfo info, OptionKind kind, double type_high);
double shortest(float value);  // the double with the float's shortest decimal form, so that 0.8f shows as 0.8
void check_unique(std::span<const OptionSpec> specs);
const nlohmann::json* json_member(const nlohmann::json& json, const std::string& key);  // nullptr when absent

template <class M>
constexpr OptionKind kind_of() {
  if constexpr (std::is_same_v<M, bool>)
    return OptionKind::kBool;
  else if constexpr (std::is_integral_v<M>)
    return OptionKind::kInt;
  else if constexpr (std::is_floating_point_v<M>)
    return OptionKind::kFloat;
  else if constexpr (std::is_same_v<M, std::string>)
    return OptionKind::kString;
  else
    return OptionKind::kStrings;
}

template <class M>
OptionSpec make_spec(std::string name, OptionInfo info) {
  if constexpr (kind_of<M>() == OptionKind::kInt)
    return make_int_spec(std::move(name), std::move(info), std::numeric_limits<M>::min(),
                         std::numeric_limits<M>::max());
  else if constexpr (kind_of<M>() == OptionKind::kFloat)
    return make_spec(std::move(name), std::move(info), OptionKind::kFloat, std::numeric_limits<M>::max());
  else
    return make_spec(std::move(name), std::move(info), kind_of<M>(), 0);
}

}  // namespace detail

template <class T>
class OptionTable {
 public:
  using Member = std::variant<bool T::*, std::int32_t T::*, std::int64_t T::*, float T::*, double T::*,
                              std::string T::*, std::vector<std::string> T::*>;

  struct Row {
    template <class M>
    Row(std::string name, M T::*pointer, OptionInfo info = {})
        : spec(detail::make_spec<M>(std::move(name), std::move(info))), member(pointer) {}
    OptionSpec spec;
    Member member;
  };

  // `title` names the struct in messages and documents ("sampling"). Checks (programming errors) that names and letters
  // are unique and that the defaults lie within their own ranges.
  OptionTable(std::string title, std::vector<Row> rows) : title_(std::move(title)) {
    for (Row& r : rows) {
      specs_.push_back(std::move(r.spec));
      members_.push_back(r.member);
    }
    detail::check_unique(specs_);
    validate(T{});
  }

  const std::string& title() const { return title_; }
  std::span<const OptionSpec> specs() const { return specs_; }

  OptionValue get(const T& object, std::size_t i) const {
    return std::visit(
        [&](auto pointer) -> OptionValue {
          using M = std::remove_cvref_t<decltype(object.*pointer)>;
          if constexpr (std::is_same_v<M, float>)
            return detail::shortest(object.*pointer);
          else if constexpr (std::is_same_v<M, std::int32_t>)
            return std::int64_t{object.*pointer};
          else
            return object.*pointer;
        },
        members_.at(i));
  }

  // REQUIRES: `value` has the option's kind. Throws when it is outside the option's range.
  void set(T& object, std::size_t i, const OptionValue& value, const std::string& context) const {
    check_option(specs_.at(i), value, context);
    std::visit(
        [&](auto pointer) {
          using M = std::remove_cvref_t<decltype(object.*pointer)>;
          if constexpr (std::is_same_v<M, float>)
            object.*pointer = static_cast<float>(std::get<double>(value));
          else if constexpr (std::is_same_v<M, std::int32_t>)
            object.*pointer = static_cast<std::int32_t>(std::get<std::int64_t>(value));
          else
            object.*pointer = std::get<M>(value);
        },
        members_[i]);
  }

  // A value as typed after the flag. A list keeps what it had and gets one more item.
  void set_text(T& object, std::size_t i, std::string_view text) const {
    const OptionSpec& spec = specs_.at(i);
    OptionValue value = option_from_text(spec, text, spec.flag);
    if (auto* items = std::get_if<std::vector<std::string>>(&value)) {
      auto all = std::get<std::vector<std::string>>(get(object, i));
      all.insert(all.end(), items->begin(), items->end());
      value = std::move(all);
    }
    set(object, i, value, spec.flag);
  }

  // Sets the options that `json` (an object) names and leaves the others. Unknown keys are errors. `object` is
  // unchanged when it throws.
  void from_json(T& object, const nlohmann::json& json) const {
    check_option_keys(specs_, json, title_);
    T next = object;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      const std::string context = title_ + "." + specs_[i].name;
      if (const auto* field = detail::json_member(json, specs_[i].name))
        set(next, i, option_from_json(specs_[i], *field, context), context);
    }
    object = std::move(next);
  }

  // Every option in table order; from_json of it gives an equal struct. Returns an ordered_json (the caller includes
  // nlohmann/json.hpp).
  auto to_json(const T& object) const { return options_to_json(specs_, values(object)); }

  // Throws when a member set by code lies outside its range.
  void validate(const T& object) const {
    for (std::size_t i = 0; i < specs_.size(); ++i)
      check_option(specs_[i], get(object, i), title_ + "." + specs_[i].name);
  }

  std::vector<OptionValue> values(const T& object) const {
    std::vector<OptionValue> all;
    for (std::size_t i = 0; i < specs_.size(); ++i) all.push_back(get(object, i));
    return all;
  }

  // A table of flag, key, type and range, default, unit and help.
  std::string markdown() const { return option_markdown(title_, specs_, values(T{})); }

 private:
  std::string title_;
  std::vector<OptionSpec> specs_;
  std::vector<Member> members_;
};

}  // namespace kvasir
