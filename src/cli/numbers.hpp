// Lists of numbers on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvasir::cli {

// "0,4096,16K" (parse_count of base/options.hpp). Throws Error(kBadInput) naming `option` for anything else and for
// numbers outside low..high.
std::vector<std::int64_t> parse_numbers(const std::string& text, std::int64_t low, std::int64_t high,
                                        const std::string& option);

}  // namespace kvasir::cli
