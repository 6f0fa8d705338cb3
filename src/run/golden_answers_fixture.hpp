// For tests: answers beside log-probabilities of another program.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "run/reuse_fixture.hpp"

namespace kvasir::run::testing {

// Each token's log-probabilities, of a whole vocabulary, are `*want` within 1e-4 of their norm; *want moves on.
inline void expect_golden(const Reply& reply, std::size_t vocab, const float** want) {
  for (const TokenRecord& token : reply.tokens) {
    double apart = 0, norm = 0;
    ASSERT_EQ(token.best.size(), vocab);
    for (const auto& b : token.best) {
      const double expected = (*want)[b.id];
      apart += std::pow(static_cast<double>(b.logprob) - expected, 2);
      norm += std::pow(expected, 2);
    }
    EXPECT_LE(std::sqrt(apart / norm), 1e-4);
    *want += vocab;
  }
}

}  // namespace kvasir::run::testing
