// Where the server's lines go: one per request, and what an operator must know. The library never prints.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kvasir::serve {

// One line without its end, in the form key=value key="value with blanks". Called by one thread at a time.
using LogWriter = std::function<void(std::string_view line)>;

// A value for such a line: at most 200 bytes of UTF-8, no control characters, quoted when it holds blanks or nothing.
std::string log_value(std::string_view text);

}  // namespace kvasir::serve
