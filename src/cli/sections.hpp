// Several texts in one file, each ended by a line of its own.
#pragma once

#include <string_view>
#include <vector>

namespace kvasir::cli {

// The texts that lines equal to `separator` end, without the line break before that line. What stands after the last
// such line is one more text unless it is empty. Views into `text`. REQUIRES: no line break in `separator`.
std::vector<std::string_view> split_sections(std::string_view text, std::string_view separator);

}  // namespace kvasir::cli
