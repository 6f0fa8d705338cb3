// All that comes on standard input.
#pragma once

#include <string>

namespace kvasir::cli {

std::string read_standard_input();  // throws Error(kIo)

}  // namespace kvasir::cli
