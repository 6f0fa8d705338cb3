#include "run/logprobs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace kvasir::run {
namespace logprobs_test {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Logprobs, AgreeWithDouble) {
  std::mt19937 rng(11);
  for (std::size_t n : {1, 2, 7, 100, 1000, 32000}) {
    for (double scale : {0.001, 1.0, 5.0, 200.0}) {
      for (double shift : {0.0, -1000.0, 1000.0}) {
        std::normal_distribution<double> normal(shift, scale);
        std::vector<float> logits(n);
        for (float& v : logits) v = static_cast<float>(normal(rng));
        if (n > 10) logits[3] = kNan, logits[5] = -kInf, logits[7] = logits[8];
        double max = -kInf, sum = 0;
        for (float v : logits) max = v > max ? v : max;
        for (float v : logits) sum += v > -kInf ? std::exp(v - max) : 0;
        const double expected = max + std::log(sum);
        const double partition = log_partition(logits);
        EXPECT_NEAR(partition, expected, 1e-6);

        std::vector<std::int32_t> order;
        for (std::size_t i = 0; i < n; ++i)
          if (logits[i] > -kInf) order.push_back(static_cast<std::int32_t>(i));
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
          return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
        });
        for (std::size_t k : {0, 1, 5, 20, 2000}) {
          std::vector<TokenLogprob> best(k);
          const std::size_t found = top_logprobs(logits, partition, best);
          ASSERT_EQ(found, std::min(k, order.size()));
          for (std::size_t i = 0; i < found; ++i) {
            EXPECT_EQ(best[i].id, order[i]);
            const double exact = logits[static_cast<std::size_t>(order[i])] - expected;
            EXPECT_NEAR(best[i].logprob, exact, 2e-6 + 1e-7 * std::abs(exact));
          }
        }
      }
    }
  }
}

TEST(Logprobs, Extremes) {
  const std::vector<float> nothing = {kNan, -kInf};
  EXPECT_EQ(log_partition(nothing), -kInf);
  EXPECT_EQ(logprob_of(nothing, 0, log_partition(nothing)), -kInf);
  std::vector<TokenLogprob> best(2);
  EXPECT_EQ(top_logprobs(nothing, log_partition(nothing), best), 0u);

  const std::vector<float> infinite = {1, kInf, 2};
  const double partition = log_partition(infinite);
  EXPECT_EQ(partition, kInf);
  EXPECT_EQ(logprob_of(infinite, 1, partition), 0);
  EXPECT_EQ(logprob_of(infinite, 2, partition), -kInf);

  const std::vector<float> huge = {3e38f, 3e38f, -3e38f};
  EXPECT_NEAR(logprob_of(huge, 0, log_partition(huge)), 0, 1);  // f64 cannot resolve ln 2 beside 3e38
  EXPECT_EQ(log_partition({}), -kInf);
}

}  // namespace logprobs_test
}  // namespace kvasir::run
