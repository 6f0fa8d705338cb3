// Texts without the names of control tokens, of the same length: what ChatTemplate::prompt compares with.
#pragma once

#include <string>

#include "base/json.hpp"
#include "text/special.hpp"

namespace kvasir::text {

// Changes one character of every name, and with `edges` of the beginnings and ends of names at the edges of the text:
// with the texts around it those could become one. False: there was nothing to change.
bool blur_names(std::string& text, const SpecialMatcher& names, bool edges = true);

// All texts of a value, keys of objects too; of a message's role whole names only, as templates make marks of roles.
bool blur_names(Json& json, const SpecialMatcher& names, bool is_message = false);

}  // namespace kvasir::text
