// For tests: the first usable OpenCL device, opened once.
#pragma once

#include <string>

#include "base/error.hpp"
#include "device/opencl.hpp"

namespace kvasir::device {

// Null: the reason is in `why`.
inline const Context* opened(std::string* why = nullptr) {
  static std::string reason;
  // Never closed: at the end of the program parts of the driver may be gone already.
  static const Context* const context = []() -> const Context* {
    try {
      return new Context(choose(survey(), "opencl"));
    } catch (const Error& e) {
      reason = e.what();
      return nullptr;
    }
  }();
  if (why) *why = reason;
  return context;
}

}  // namespace kvasir::device
