// SHA-256 of files.
#pragma once

#include <cstdint>
#include <string>

#include "base/function_ref.hpp"

namespace kvasir {

// 64 hexadecimal digits, in lower case. `poll(bytes)` is told how much was read, about every MiB; false stops. Throws
// Error(kIo) naming the path, Error(kCancelled).
std::string sha256_of_file(
    const std::string& path, FunctionRef<bool(std::uint64_t)> poll = [](std::uint64_t) { return true; });

}  // namespace kvasir
