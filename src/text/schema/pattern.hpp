// Regular expressions of JSON Schema: ECMA-262, without what no finite automaton can do.
#pragma once

#include <string_view>

#include "text/schema/automaton.hpp"

namespace kvasir::text {

// The strings in which `pattern` (UTF-8) matches somewhere; with ^ and $ at the begin and the end. Known are
// characters, ., classes, \d \w \s and their opposites, \p of L, Lu, Ll, N, Nd, P and Z with long names, escapes,
// groups, alternatives, quantifiers (lazy ones match the same strings), ^ and $ anywhere, and (?=...), (?!...) behind a
// ^ that begins the pattern. Throws Error(kBadInput) that says what is wrong; Error(kUnsupported) for back references,
// \b, other places of look-ahead, look-behind, and what needs too many states.
Automaton automaton_of_pattern(std::string_view pattern);

}  // namespace kvasir::text
