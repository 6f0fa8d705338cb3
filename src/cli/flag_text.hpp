// How an option of a table reads on a command line: for the parser, and for completions and the manual page.
#pragma once

#include <string>

#include "base/options.hpp"

namespace kvasir::cli {

std::string flag_names(const OptionSpec& spec);  // "-n,--n", "--exact,!--no-exact": what follows "!" turns it off
// Help, then type, range, unit and default.
std::string flag_help(const OptionSpec& spec, const OptionValue& preset);

}  // namespace kvasir::cli
