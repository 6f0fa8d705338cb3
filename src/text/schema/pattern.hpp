// Regular expressions of JSON Schema: ECMA-262, without what no finite automaton can do.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/schema/automaton.hpp"

namespace kvasir::text {

// The strings in which `pattern` (UTF-8) matches somewhere; with ^ and $ at the begin and the end. Known are
// characters, ., classes, \d \w \s and their opposites, \p of L, Lu, Ll, N, Nd, P and Z with long names, escapes,
// groups, alternatives, quantifiers (lazy ones match the same strings), ^ and $ anywhere, and (?=...), (?!...) behind a
// ^ that begins the pattern. Throws Error(kBadInput) that says what is wrong; Error(kUnsupported) for back references,
// \b, other places of look-ahead, look-behind, and what needs too many states. Adds to `steps` what it costs, also when
// it throws: at most some ten millions.
Automaton automaton_of_pattern(std::string_view pattern, std::uint64_t* steps = nullptr);

// The same for the strings that the pattern matches from their begin to their end.
Automaton automaton_of_whole_pattern(std::string_view pattern, std::uint64_t* steps = nullptr);

}  // namespace kvasir::text
