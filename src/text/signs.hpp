// The last pattern of DeepSeek V3 and of vocabularies made after it, where punctuation and symbols are told from other
// characters. What it does not match (numbers, control characters) is left between the pieces.
#pragma once

#include "text/split.hpp"

namespace kvasir::text {

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+| \s+(?!\S)|\s+                                 with `lines`: newlines one by one,
// and none behind signs
std::size_t signs_match(const Scanner& text, std::size_t position, bool lines = false);

// [一-龥぀-ゟ゠-ヿ]+, for isolate.
std::size_t han_or_kana(const Scanner& text, std::size_t position);

}  // namespace kvasir::text
