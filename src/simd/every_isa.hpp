// For tests: the same on every instruction set of this machine.
#pragma once

#include "simd/isa.hpp"

namespace kvasir::simd {

// Puts back the instruction set that was in use.
class KeepIsa {
 public:
  KeepIsa() = default;
  ~KeepIsa() { force(before_); }
  KeepIsa(const KeepIsa&) = delete;
  KeepIsa& operator=(const KeepIsa&) = delete;

 private:
  const Isa before_ = active();
};

// Calls `run` once per instruction set that this machine has, in increasing order, with that one in use.
template <class Run>
void each_isa(Run run) {
  const KeepIsa keep;
  for (int i = 0; i < kIsaCount; ++i) {
    if (!supported(static_cast<Isa>(i))) continue;
    force(static_cast<Isa>(i));
    run();
  }
}

}  // namespace kvasir::simd
