// What Python's operators do with values.
#pragma once

#include "text/jinja/ast.hpp"
#include "text/jinja/value.hpp"

namespace kvasir::text::jinja {

Value arithmetic(Op op, const Value& a, const Value& b, Meter& meter);
Value negate(const Value& v);
// ==, <, in ...
bool holds(Op op, const Value& a, const Value& b, Meter& meter);

// a[index] of sequences, strings and dicts; undefined where there is nothing. Attributes are not looked at.
Value item(const Value& v, const Value& index, Meter& meter);
// v[begin:end:step], null where left out. Throws for what has no items by index.
Value slice(const Value& v, const Value* begin, const Value* end, const Value* step, Meter& meter);

// `format % arg`
std::string percent_format(std::string_view format, const Value& arg, Meter& meter);
// format.format(...)
std::string brace_format(std::string_view format, const Args& args, Meter& meter);

// "&" -> "&amp;", as MarkupSafe does
std::string escape_html(std::string_view text);

}  // namespace kvasir::text::jinja
