// Template text to a program.
#pragma once

#include <string_view>

#include "text/jinja/ast.hpp"

namespace kvasir::text::jinja {

// Throws Error(kBadInput) that names the line.
Program parse(std::string_view source);

}  // namespace kvasir::text::jinja
