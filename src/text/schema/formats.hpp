// What `format` of JSON Schema says of strings, as far as it is held.
#pragma once

#include <string_view>

namespace kvasir::text {

// A pattern whose strings have the format; it is narrower than the standards where these have rare forms (no leap
// days, no comments in mail addresses). Empty for formats that are not known: an annotation, as the standard says.
std::string_view pattern_of_format(std::string_view format);

}  // namespace kvasir::text
