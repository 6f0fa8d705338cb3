// Options by name, as on the command line and in its configuration files: {"threads", 2}, {"kv", "balanced"}.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir {

struct Option {
  std::string name;
  std::string value;  // as text: "true", "0.8"

  Option(std::string n, std::string v) : name(std::move(n)), value(std::move(v)) {}
  Option(std::string n, std::string_view v) : name(std::move(n)), value(v) {}
  Option(std::string n, const char* v) : name(std::move(n)), value(v) {}
  Option(std::string n, bool v) : name(std::move(n)), value(v ? "true" : "false") {}
  template <class T>
  requires(std::integral<T> || std::floating_point<T>) Option(std::string n, T v);
};

// One that takes a list ("stop") may be named more than once; of the others the last counts.
using Options = std::vector<Option>;

// An option as the command line, C, C++, Python and HTTP have it.
struct OptionDescription {
  std::string name;
  std::string type;     // "boolean", "integer", "number", "text", "list of texts"
  std::string expects;  // "a number from 0 to 1"
  std::string preset;   // what holds without it, as JSON
  std::string unit;     // "tokens"; empty when it has none
  std::string help;
};
std::vector<OptionDescription> engine_options();   // of Engine
std::vector<OptionDescription> request_options();  // of its calls and of Session

namespace detail {
std::string option_text(double value);  // the shortest text that reads as the same number
std::string option_text(float value);
std::string option_text(long long value);
std::string option_text(unsigned long long value);
}  // namespace detail

template <class T>
requires(std::integral<T> || std::floating_point<T>) Option::Option(std::string n, T v) : name(std::move(n)) {
  if constexpr (std::same_as<T, float>)
    value = detail::option_text(v);
  else if constexpr (std::floating_point<T>)
    value = detail::option_text(static_cast<double>(v));
  else if constexpr (std::signed_integral<T>)
    value = detail::option_text(static_cast<long long>(v));
  else
    value = detail::option_text(static_cast<unsigned long long>(v));
}

}  // namespace kvasir
