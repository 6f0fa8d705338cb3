// Filters, tests, functions and methods by name.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "text/jinja/value.hpp"

namespace kvasir::text::jinja {

struct Filter {
  std::string_view name;
  Value (*apply)(Machine& machine, const Value& input, Args& args);
};

struct Test {
  std::string_view name;
  bool (*holds)(Machine& machine, const Value& subject, Args& args);
};

struct Function {
  std::string_view name;
  Value (*call)(Machine& machine, Args& args);
};

struct Method {
  std::string_view name;
  Value (*call)(Machine& machine, const Value& self, Args& args);
};

// Null: there is none.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
const Function* find_function(std::string_view name);
const Function* find_member(const Function& function, std::string_view name);  // dict.fromkeys
const Method* find_method(const Value& self, std::string_view name);

std::span<const Filter> text_filters();
std::span<const Filter> sequence_filters();
std::span<const Method> text_methods();
std::span<const Method> changing_methods(const Value& v);  // of lists and dicts

// Arguments by parameter. A null entry was not given. Throws when one of the first `required` is missing, an argument
// is unknown, given twice or too many. `who` is named in messages. The pointers go into `args`.
template <std::size_t n>
std::array<const Value*, n> bind(const Args& args, std::string_view who, const std::string_view (&names)[n],
                                 std::size_t required = 0);
void bind_arguments(const Args& args, std::string_view who, std::span<const std::string_view> names,
                    std::size_t required, const Value** out);

template <std::size_t n>
std::array<const Value*, n> bind(const Args& args, std::string_view who, const std::string_view (&names)[n],
                                 std::size_t required) {
  std::array<const Value*, n> out{};
  bind_arguments(args, who, names, required, out.data());
  return out;
}
void no_arguments(const Args& args, std::string_view who);

// A given argument as a number or text, `otherwise` when it was not given (null). Throws for other types.
std::int64_t int_or(const Value* v, std::int64_t otherwise, std::string_view who);
bool bool_or(const Value* v, bool otherwise);
std::string_view view_or(const Value* v, std::string_view otherwise, std::string_view who);

}  // namespace kvasir::text::jinja
