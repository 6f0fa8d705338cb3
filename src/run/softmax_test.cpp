#include "run/softmax.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvasir::run {
namespace softmax_test {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Softmax, ExpIsAccurateAndLargestIgnoresNan) {
  for (double x = 0; x > -86.9; x -= 0.00137) {
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    EXPECT_NEAR(exp_nonpositive(static_cast<float>(x)) / exact, 1, 3e-7) << x;
  }
  EXPECT_EQ(exp_nonpositive(0), 1);
  EXPECT_EQ(exp_nonpositive(-kInf), 0);
  EXPECT_EQ(exp_nonpositive(kNan), 0);
  for (std::size_t n : {0, 1, 15, 16, 17, 100}) {
    std::vector<float> x(n, kNan);
    EXPECT_EQ(largest(x), -kInf);
    for (std::size_t at = 0; at < n; ++at) {
      x[at] = static_cast<float>(at) - 200;
      EXPECT_EQ(largest(x), static_cast<float>(at) - 200);
    }
  }
}

}  // namespace softmax_test
}  // namespace kvasir::run
