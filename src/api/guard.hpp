// What leaves the library as an exception: std::invalid_argument where the caller is wrong, else std::runtime_error.
#pragma once

#include <stdexcept>

#include "base/error.hpp"

namespace kvasir::api {

template <class F>
auto guarded(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.code() == Code::kBadInput) throw std::invalid_argument(e.what());
    throw;
  }
}

}  // namespace kvasir::api
