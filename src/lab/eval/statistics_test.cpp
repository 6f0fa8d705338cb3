#include "lab/eval/statistics.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace kvasir::lab::eval {
namespace {

double kl(std::span<const float> p, std::span<const float> q) {
  return kl_divergence(p, log_sum_exp(p), q, log_sum_exp(q));
}

TEST(Statistics, DivergenceByHand) {
  // p = (1/2, 1/2), q = (1/4, 3/4): 1/2 ln 2 + 1/2 ln(2/3)
  const std::array<float, 2> p{0, 0}, q{0, std::log(3.0f)};
  EXPECT_NEAR(kl(p, q), 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3), 1e-7);
  EXPECT_NEAR(kl(q, p), 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7);
  EXPECT_EQ(kl(q, q), 0);
}

TEST(Statistics, DivergenceOfASmallShiftIsHalfItsVariance) {
  // KL(p || p + e) = Var_p(e) / 2 + O(e^3): resolved far below float precision
  std::vector<float> p(4096), q(4096);
  double mean = 0, square = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    p[i] = static_cast<float>(i % 7);
    q[i] = p[i] + (i % 2 ? 0x1p-12f : 0.0f);
  }
  const double sum = log_sum_exp(p);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double w = std::exp(p[i] - sum), e = static_cast<double>(q[i]) - p[i];
    mean += w * e;
    square += w * e * e;
  }
  const double expected = (square - mean * mean) / 2;
  EXPECT_NEAR(kl(p, q), expected, 1e-3 * expected);
  // A shift of all logits is no change of the distribution.
  for (std::size_t i = 0; i < p.size(); ++i) q[i] = p[i] + 8;
  EXPECT_LT(kl(p, q), 1e-14);
}

TEST(Statistics, LogSumExpOfLargeLogits) {
  const std::array<float, 3> x{1000, 1000, -1000};
  EXPECT_NEAR(log_sum_exp(x), 1000 + std::log(2.0), 1e-12);
}

TEST(Statistics, MeanAndItsPairedError) {
  // differences 1, 2, 3, 6: mean 3, squares 4 + 1 + 0 + 9 = 14, variance 14/3, error sqrt(14/3/4)
  Moments m;
  for (const double x : {1.0, 2.0, 3.0, 6.0}) m.add(x);
  EXPECT_DOUBLE_EQ(m.mean(), 3);
  EXPECT_DOUBLE_EQ(m.variance(), 14.0 / 3);
  EXPECT_DOUBLE_EQ(m.standard_error(), std::sqrt(14.0 / 12));
  Moments one;
  one.add(5);
  EXPECT_EQ(one.standard_error(), 0);
}

TEST(Statistics, PercentileIsTheNearestRank) {
  std::vector<float> x;
  for (int i = 100; i >= 1; --i) x.push_back(static_cast<float>(i));
  EXPECT_EQ(percentile(x, 0.99), 99);
  EXPECT_EQ(percentile(x, 1), 100);
  EXPECT_EQ(percentile(x, 0), 1);
  EXPECT_EQ(percentile(x, 0.501), 51);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

TEST(Statistics, ArgmaxTakesTheLowestAmongEquals) {
  const std::array<float, 4> x{1, 3, 3, 2};
  EXPECT_EQ(argmax(x), 1u);
}

TEST(Statistics, BinomialTail) {
  EXPECT_NEAR(binomial_tail(3, 2, 0.5), 0.5, 1e-12);       // 3/8 + 1/8
  EXPECT_NEAR(binomial_tail(2, 1, 0.1), 1 - 0.81, 1e-12);  // 1 - 0.9^2
  EXPECT_NEAR(binomial_tail(20, 0, 0.1), 1, 1e-12);
  EXPECT_NEAR(binomial_tail(10, 10, 0.1), 1e-10, 1e-16);
}

TEST(Statistics, AVerdictNeedsTrials) {
  EXPECT_EQ(skill_of(2, 2, 0.1), Skill::kUnknown);  // guessing is right twice once in a hundred times
  EXPECT_EQ(skill_of(3, 3, 0.1), Skill::kSome);
  EXPECT_EQ(skill_of(1, 0, 0.1), Skill::kUnknown);
  EXPECT_EQ(skill_of(2, 0, 0.1), Skill::kUnknown);
  EXPECT_EQ(skill_of(20, 2, 0.1), Skill::kNone);
  EXPECT_EQ(skill_of(20, 12, 0.1), Skill::kSome);
  EXPECT_EQ(skill_of(5, 5, 0.5), Skill::kUnknown);  // of two answers one
  EXPECT_EQ(skill_of(40, 20, 0.5), Skill::kNone);
}

TEST(Statistics, SignalToNoiseByHand) {
  // One channel, x = 3, 5; y = 2, 5: signal 34, error 1. Means taken out: signal 2, error 1/2.
  Distortion s(1);
  const float x[] = {3, 5}, y[] = {2, 5};
  s.add(x, y);
  s.add(x + 1, y + 1);
  EXPECT_NEAR(s.db(), 10 * std::log10(34.0), 1e-9);
  EXPECT_NEAR(s.centred_db(), 10 * std::log10(4.0), 1e-9);
}

TEST(Statistics, AConstantErrorIsNoCentredError) {
  Distortion s(2);
  const float rows[3][2] = {{1, -4}, {2, 7}, {6, 0}};
  for (const auto& x : rows) {
    const float y[] = {x[0] + 0.5f, x[1] - 2};
    s.add(x, y);
  }
  EXPECT_NEAR(s.db(), 10 * std::log10(106.0 / (3 * 4.25)), 1e-9);
  EXPECT_TRUE(std::isinf(s.centred_db()));
  // Sums over heads are sums of energies.
  Distortion::Energy twice = s.energy();
  twice += s.energy();
  EXPECT_DOUBLE_EQ(twice.db(), s.db());
}

TEST(Statistics, RegressionByHand) {
  // y = 0.5 x + error orthogonal to x
  Regression r;
  r.add(2, 1 + 1);    // error +1 at x = 2
  r.add(-2, -1 + 1);  // and at -2: orthogonal
  EXPECT_DOUBLE_EQ(r.slope(), 0.5);
  EXPECT_DOUBLE_EQ(r.relative_error(), (0.0 + 4.0) / 8);
}

}  // namespace
}  // namespace kvasir::lab::eval
