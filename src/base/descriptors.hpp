// How many files and connections this process may have open.
#pragma once

#include <cstdint>

namespace kvasir {

// Raises the limit as far as this user may and returns it.
std::int64_t raise_descriptor_limit();

}  // namespace kvasir
