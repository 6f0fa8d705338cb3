// What reading the schemas of one request may cost.
#pragma once

#include <cstdint>

#include "base/error.hpp"

namespace kvasir::text {

// Counted in units of a few nanoseconds: a keyword looked up among others is some, a value checked against a schema a
// hundred. Schemas that programs send need a few hundred thousand.
class Work {
 public:
  static constexpr std::uint64_t kMost = 64'000'000;

  // Throws Error(kBadInput) when less is left; then it is all gone.
  void spend(std::uint64_t units) {
    if (units > left_) {
      left_ = 0;
      throw Error(Code::kBadInput, "takes too much work to check", "schema");
    }
    left_ -= units;
  }

 private:
  std::uint64_t left_ = kMost;
};

}  // namespace kvasir::text
