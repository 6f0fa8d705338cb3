// For tests: every instruction set of this machine, named in what fails.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "simd/every_isa.hpp"

namespace kvasir::simd {

template <class Run>
void on_every_isa(Run run) {
  each_isa([&] {
    SCOPED_TRACE(std::string(name(active())));
    run();
  });
}

// Suites whose parameter is the instruction set:
//   INSTANTIATE_TEST_SUITE_P(Isa, MySuite, ::testing::Range(0, simd::kIsaCount), ...);
class IsaTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const auto isa = static_cast<Isa>(GetParam());
    if (!supported(isa)) GTEST_SKIP() << name(isa) << " is not supported by this machine";
    force(isa);
  }

 private:
  const KeepIsa keep_;
};

}  // namespace kvasir::simd
