// JSON in and out, as Hugging Face's tojson writes it (json.dumps).
#pragma once

#include <string>

#include "base/json.hpp"
#include "text/jinja/value.hpp"

namespace kvasir::text::jinja {

// Throws Error(kBadInput) that names `where` for strings that are not UTF-8 and for values nested too deep. Integers
// above 2^63 - 1 become floats. A binary value is a JSON text, or the beginning of one, that tojson shows as it is.
Value from_json(const Json& json, Meter& meter, const std::string& where);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool lines = false;  // one item per line, indented by `indent`
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

void append_json(std::string& out, const Value& v, const JsonStyle& style, Meter& meter, int depth = 0);

}  // namespace kvasir::text::jinja
