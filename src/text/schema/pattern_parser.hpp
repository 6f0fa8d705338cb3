// Patterns of JSON Schema (regular expressions of ECMA-262, the part that makes a regular language) as trees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/schema/automaton.hpp"

namespace kvasir::text {

// Characters: ascending ranges that do not touch.
using CharSet = std::vector<CharRange>;

struct PatternPart {
  enum class Kind { kChars, kBegin, kEnd, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  CharSet set = {};
  std::vector<PatternPart> parts = {};
  std::int32_t least = 0, most = 0;  // most -1: no limit
};

// A look-ahead at the begin of the pattern.
struct PatternAhead {
  PatternPart part;
  bool positive;
};

// Throws Error: kBadInput for what is no pattern, kUnsupported for what is no regular language or not known here.
PatternPart parse_pattern(std::string_view pattern, std::vector<PatternAhead>& aheads);

}  // namespace kvasir::text
