// Upper and lower case of characters.
#pragma once

#include <cstdint>
#include <string>

namespace kvasir::unicode {

// Appends the upper or lower case of `code`, which is one character or, where Unicode's SpecialCasing.txt says so
// without regard to context or language, several ("ß" -> "SS"). REQUIRES: a Unicode scalar value.
void append_upper(std::string& out, std::uint32_t code);
void append_lower(std::string& out, std::uint32_t code);

}  // namespace kvasir::unicode
