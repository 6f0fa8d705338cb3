// Escapes in string literals, as Python's unicode-escape codec reads them.
#pragma once

#include <string>
#include <string_view>

namespace kvasir::text::jinja {

// Unknown escapes stay as they are. Throws Error(kBadInput) naming `line` for incomplete ones, lone surrogates and
// \N{name}.
std::string unescape(std::string_view literal, int line);

}  // namespace kvasir::text::jinja
