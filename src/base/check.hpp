// Programming errors throw, they never abort: a server survives a bug in one request.
#pragma once

#include <stdexcept>
#include <string>

namespace kvasir {

[[noreturn]] inline void check_failed(const char* expression, const char* file, int line) {
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": check failed: " + expression);
}

}  // namespace kvasir

#define KVASIR_CHECK(expression)                                                \
  do {                                                                          \
    if (!(expression)) ::kvasir::check_failed(#expression, __FILE__, __LINE__); \
  } while (0)
