#include "kv/families/lloyd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kvasir::kv {
namespace {

std::size_t levels(const LloydTable& t) { return std::size_t{1} << t.bits; }

void expect_levels(const LloydTable& t, const std::vector<double>& positive) {
  ASSERT_EQ(levels(t), 2 * positive.size());
  for (std::size_t i = 0; i < positive.size(); ++i)
    EXPECT_NEAR(static_cast<double>(t.levels[positive.size() + i]), positive[i], 1e-4) << i;
}

// Max (1960) and the usual tables behind it.
const std::vector<std::vector<double>> kGaussian = {
    {.79788},
    {.45278, 1.51042},
    {.24509, .75601, 1.34391, 2.15195},
    {.12840, .38805, .65676, .94234, 1.25623, 1.61805, 2.06902, 2.73259},
    {.06589, .19805, .33138, .46670, .60493, .74714, .89457, 1.04878, 1.21180, 1.38634, 1.57623, 1.78723, 2.02873,
     2.31774, 2.69112, 3.26073},
};
const std::vector<double> kGaussianMse = {.36338, .117482, .034548, .009501, .002505, .000644, .0001635, .0000412};
const std::vector<double> kGaussianEntropy = {1.000, 1.911, 2.825, 3.765, 4.730};

TEST(Lloyd, GaussianTables) {
  for (int b = 1; b <= 5; ++b) {
    SCOPED_TRACE(b);
    const LloydTable& t = gaussian_lloyd(b);
    EXPECT_EQ(t.bits, b);
    expect_levels(t, kGaussian[static_cast<std::size_t>(b - 1)]);
    EXPECT_NEAR(t.entropy, kGaussianEntropy[static_cast<std::size_t>(b - 1)], 6e-4);
  }
  for (int b = 1; b <= 8; ++b) {
    const double printed = kGaussianMse[static_cast<std::size_t>(b - 1)];
    EXPECT_NEAR(gaussian_lloyd(b).mse / printed, 1.0, b <= 5 ? 3e-4 : 1e-3) << b;
  }
}

struct Sphere {
  int d;
  std::vector<std::vector<double>> levels;
  std::vector<double> mse;
};

TEST(Lloyd, SphereTables) {
  const std::vector<Sphere> printed = {
      {64,
       {{.80101},
        {.45212, 1.49997},
        {.24375, .75066, 1.32934, 2.11131},
        {.12735, .38472, .65049, .93189, 1.23940, 1.59085, 2.02331, 2.64637}},
       {.358387, .114526, .033391, .009132}},
      {80,
       {{.80038},
        {.45225, 1.50206},
        {.24402, .75173, 1.33224, 2.11934},
        {.12756, .38538, .65174, .93397, 1.24274, 1.59622, 2.03230, 2.66322}},
       {.359389, .115115, .033620, .009204}},
      {96,
       {{.79997},
        {.45234, 1.50345},
        {.24420, .75244, 1.33417, 2.12472},
        {.12770, .38583, .65258, .93536, 1.24497, 1.59982, 2.03833, 2.67456}},
       {.360056, .115508, .033773, .009253}},
      {128,
       {{.79944},
        {.45245, 1.50519},
        {.24442, .75333, 1.33660, 2.13147},
        {.12787, .38638, .65362, .93710, 1.24777, 1.60434, 2.04593, 2.68886}},
       {.360889, .116000, .033966, .009315, .002451}},
      {256,
       {{.79866},
        {.45262, 1.50780},
        {.24476, .75467, 1.34025, 2.14167},
        {.12813, .38721, .65519, .93971, 1.25199, 1.61117, 2.05741, 2.71057}},
       {.362136, .116740, .034256, .009408}},
      {512,
       {{.79827},
        {.45270, 1.50911},
        {.24493, .75534, 1.34208, 2.14680},
        {.12826, .38763, .65597, .94103, 1.25411, 1.61460, 2.06320, 2.72154}},
       {.362758, .117111, .034402, .009454}},
  };
  for (const Sphere& s : printed) {
    for (std::size_t i = 0; i < s.mse.size(); ++i) {
      SCOPED_TRACE(std::to_string(s.d) + " " + std::to_string(i + 1));
      const LloydTable t = sphere_lloyd(static_cast<int>(i) + 1, s.d);
      if (i < s.levels.size()) expect_levels(t, s.levels[i]);
      EXPECT_NEAR(t.mse / s.mse[i], 1.0, 3e-4);
    }
  }
}

TEST(Lloyd, SmallSpheresHaveTheClosedFormOfOneBit) {
  // E|x| of a coordinate of a vector of length sqrt(d): sqrt(d / pi) Gamma(d/2) / Gamma((d+1)/2).
  for (const int d : {16, 17, 33, 48, 576, 4096}) {
    const double mean = std::sqrt(d / std::numbers::pi) * std::exp(std::lgamma(d / 2.0) - std::lgamma((d + 1) / 2.0));
    const LloydTable t = sphere_lloyd(1, d);
    EXPECT_NEAR(static_cast<double>(t.levels[1]), mean, 1e-6) << d;
    EXPECT_NEAR(t.mse, 1 - mean * mean, 1e-9) << d;
  }
}

// What every quantiser must be, whatever its density.
void expect_quantiser(const LloydTable& t) {
  const std::size_t n = levels(t);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(t.levels[i], -t.levels[n - 1 - i]);
    if (i + 1 == n) break;
    EXPECT_LT(t.levels[i], t.levels[i + 1]);
    EXPECT_NEAR(static_cast<double>(t.boundaries[i]), 0.5 * static_cast<double>(t.levels[i] + t.levels[i + 1]), 1e-6);
    EXPECT_EQ(t.boundaries[i], -t.boundaries[n - 2 - i]);
  }
  EXPECT_EQ(t.boundaries[n / 2 - 1], 0.0f);
  EXPECT_FALSE(std::signbit(t.boundaries[n / 2 - 1]));
  for (std::size_t i = n - 1; i < 256; ++i) EXPECT_EQ(t.boundaries[i], std::numeric_limits<float>::infinity());
  for (std::size_t i = n; i < 256; ++i) EXPECT_EQ(t.levels[i], std::numeric_limits<float>::infinity());
}

TEST(Lloyd, TablesAreSortedSymmetricAndMidpoint) {
  for (int b = 1; b <= 8; ++b) {
    SCOPED_TRACE(b);
    expect_quantiser(gaussian_lloyd(b));
    for (const int d : {16, 64, 128, 1024}) expect_quantiser(sphere_lloyd(b, d));
  }
}

TEST(Lloyd, SamplesHaveThePrintedError) {
  std::mt19937_64 rng(1);
  std::normal_distribution<double> normal;
  std::vector<float> samples(1000000);
  for (auto& x : samples) x = static_cast<float>(normal(rng));
  for (int b = 1; b <= 8; ++b) {
    SCOPED_TRACE(b);
    const LloydTable& t = gaussian_lloyd(b);
    const std::size_t n = levels(t);
    std::vector<double> counts(n, 0.0);
    double error = 0;
    for (const float x : samples) {
      const auto i = static_cast<std::size_t>(std::upper_bound(t.boundaries, t.boundaries + n - 1, x) - t.boundaries);
      const double e = static_cast<double>(x) - static_cast<double>(t.levels[i]);
      error += e * e;
      counts[i] += 1;
    }
    const auto size = static_cast<double>(samples.size());
    EXPECT_NEAR(error / size / kGaussianMse[static_cast<std::size_t>(b - 1)], 1.0, 0.01);
    double entropy = 0;
    for (const double c : counts) entropy -= c > 0 ? c / size * std::log2(c / size) : 0;
    EXPECT_NEAR(entropy, t.entropy, 2e-3);
  }
}

TEST(Lloyd, ThreadsGetTheSameTable) {
  std::vector<const LloydTable*> seen(8);
  std::vector<std::thread> threads;
  for (auto& s : seen) threads.emplace_back([&s] { s = &gaussian_lloyd(8); });
  for (auto& t : threads) t.join();
  for (const auto* s : seen) EXPECT_EQ(s, seen[0]);
}

TEST(Lloyd, RefusesOtherBits) {
  for (const int b : {-1, 0, 9}) EXPECT_THROW(gaussian_lloyd(b), std::logic_error) << b;
  EXPECT_THROW(sphere_lloyd(9, 64), std::logic_error);
  EXPECT_THROW(sphere_lloyd(4, 15), std::logic_error);
}

}  // namespace
}  // namespace kvasir::kv
