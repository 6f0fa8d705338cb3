// Arguments of tool calls as clients send them back: models cut and break JSON, and what was given out is taken back.
#pragma once

#include <string>

#include "base/json.hpp"

namespace kvasir::text {

// The object that `text` is, or what is left of one that is cut or broken: what is open is closed, and what cannot be
// read at the end is left out. Nothing of it can be read: {}.
Json mended_arguments(const std::string& text);

// A JSON text that templates show as it is, whatever it holds, where they would show an object by `tojson`.
Json verbatim_json(const std::string& text);
std::string verbatim_text(const Json& json);  // REQUIRES: is_binary()

}  // namespace kvasir::text
