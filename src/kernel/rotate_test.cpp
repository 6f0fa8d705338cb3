#include "kernel/rotate.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/gaussian.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::kernel {
namespace rotate_test {

using simd::on_every_isa;

// The head sizes of models, both ends, and odd parts of every kind.
constexpr int kSizes[] = {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 496, 512, 576, 1008, 1024};

using State = std::vector<std::byte>;

State make(int d, std::uint64_t seed) {
  State state(rotation_bytes(d));
  make_rotation(state.data(), d, seed);
  return state;
}

std::vector<float> unit_rows(int d) {  // rotated, row i is column i of R
  const auto n = static_cast<std::size_t>(d);
  std::vector<float> x(n * n, 0.0f);
  for (std::size_t i = 0; i < n; ++i) x[i * n + i] = 1.0f;
  return x;
}

std::vector<float> signs(int d, std::uint64_t seed) {  // from the first row of R, which is them over sqrt(d)
  std::vector<float> x(static_cast<std::size_t>(d), 0.0f);
  x[0] = 1.0f;
  rotate().inverse(make(d, seed).data(), d, 1, x.data(), d);
  for (auto& v : x) v = v < 0 ? -1.0f : 1.0f;
  return x;
}

double norm2(const float* x, int d) {
  double sum = 0;
  for (int i = 0; i < d; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

double largest(const std::vector<float>& x) {
  double m = 0;
  for (const float v : x) m = std::max(m, std::abs(static_cast<double>(v)));
  return m;
}

// The matrix as the header defines it, in double precision.
TEST(Rotate, IsTheMatrixOfItsDefinition) {
  on_every_isa([] {
    for (const int d : kSizes) {
      SCOPED_TRACE(d);
      const int n = d & -d, m = d / n;
      const auto s = signs(d, 7);
      auto columns = unit_rows(d);
      rotate().forward(make(d, 7).data(), d, d, columns.data(), d);
      double worst = 0;
      for (int i = 0; i < d; ++i)
        for (int j = 0; j < d; ++j) {
          const double angle = 2 * std::numbers::pi * (i / n) * (j / n) / m;
          const int parity = std::popcount(static_cast<unsigned>(i % n & j % n)) % 2;
          const double wanted = (parity ? -1 : 1) * (std::cos(angle) + std::sin(angle)) *
                                static_cast<double>(s[static_cast<std::size_t>(j)]) / std::sqrt(d);
          worst = std::max(worst, std::abs(wanted - static_cast<double>(columns[static_cast<std::size_t>(j * d + i)])));
        }
      EXPECT_LT(worst, 1e-6);
    }
  });
}

TEST(Rotate, IsOrthogonal) {
  on_every_isa([] {
    for (const int d : kSizes) {
      if (d > 256) continue;  // d^3
      SCOPED_TRACE(d);
      auto columns = unit_rows(d);
      rotate().forward(make(d, 11).data(), d, d, columns.data(), d);
      double worst = 0;
      for (int i = 0; i < d; ++i)
        for (int j = 0; j <= i; ++j) {
          double dot = 0;
          for (int k = 0; k < d; ++k)
            dot += static_cast<double>(columns[static_cast<std::size_t>(i * d + k)]) *
                   static_cast<double>(columns[static_cast<std::size_t>(j * d + k)]);
          worst = std::max(worst, std::abs(dot - (i == j)));
        }
      EXPECT_LT(worst, 1e-5);
    }
  });
}

TEST(Rotate, KeepsNormsAndComesBack) {
  on_every_isa([] {
    for (int d = 16; d <= kMaxRotated; d += 16) {
      SCOPED_TRACE(d);
      constexpr int kRows = 3;
      const State state = make(d, static_cast<std::uint64_t>(d));
      const int stride = d + 5;  // the gaps must stay as they are
      const auto before = gaussian(static_cast<std::size_t>(kRows * stride), static_cast<unsigned>(d));
      auto x = before;
      rotate().forward(state.data(), d, kRows, x.data(), stride);
      for (int r = 0; r < kRows; ++r)
        EXPECT_NEAR(norm2(&x[static_cast<std::size_t>(r * stride)], d) /
                        norm2(&before[static_cast<std::size_t>(r * stride)], d),
                    1.0, 1e-5);
      EXPECT_NE(std::memcmp(x.data(), before.data(), sizeof(float) * static_cast<std::size_t>(d)), 0);
      rotate().inverse(state.data(), d, kRows, x.data(), stride);
      for (int i = 0; i < kRows * stride; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i % stride < d)
          EXPECT_NEAR(x[at], before[at], 1e-5f) << i;
        else
          EXPECT_EQ(x[at], before[at]) << i;
      }
    }
  });
}

// Rows on the scalar reference give the bits that every variant on every instruction set must give.
TEST(Rotate, RowsAndColumnsHaveEqualBitsOnEveryInstructionSet) {
  const simd::Isa before = simd::active();
  for (const int d : kSizes) {
    const State state = make(d, 3);
    for (const bool back : {false, true}) {
      for (const auto& [columns, stride] : {std::pair{128, 128}, {64, 64}, {16, 40}}) {
        SCOPED_TRACE(std::to_string(d) + (back ? " inverse " : " forward ") + std::to_string(columns));
        auto rows = gaussian(static_cast<std::size_t>(columns * d), static_cast<unsigned>(d));
        rows[0] = 0.0f, rows[1] = -0.0f;
        std::vector<float> turned(static_cast<std::size_t>(stride * d), 42.0f);
        for (int t = 0; t < columns; ++t)
          for (int c = 0; c < d; ++c)
            turned[static_cast<std::size_t>(c * stride + t)] = rows[static_cast<std::size_t>(t * d + c)];
        const auto rows_in = rows, columns_in = turned;
        simd::force(simd::Isa::kScalar);
        (back ? rotate().inverse : rotate().forward)(state.data(), d, columns, rows.data(), d);
        for (int t = 0; t < columns; ++t)
          for (int c = 0; c < d; ++c)
            turned[static_cast<std::size_t>(c * stride + t)] = rows[static_cast<std::size_t>(t * d + c)];
        on_every_isa([&, stride = stride, columns = columns] {
          auto x = rows_in;
          (back ? rotate().inverse : rotate().forward)(state.data(), d, columns, x.data(), d);
          EXPECT_EQ(std::memcmp(x.data(), rows.data(), x.size() * sizeof(float)), 0);
          auto y = columns_in;
          (back ? rotate().inverse_columns : rotate().forward_columns)(state.data(), d, columns, y.data(), stride);
          EXPECT_EQ(std::memcmp(y.data(), turned.data(), y.size() * sizeof(float)), 0);
        });
      }
    }
  }
  simd::force(before);
}

// What a transform without real signs would gather in one coordinate.
TEST(Rotate, SpreadsWalshFunctions) {
  for (const int d : kSizes) {
    SCOPED_TRACE(d);
    std::mt19937 rng(1);
    double worst = 0, energy = 0;
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      const unsigned which = rng() % static_cast<unsigned>(d);
      std::vector<float> x(static_cast<std::size_t>(d));
      for (unsigned i = 0; i < x.size(); ++i) x[i] = std::popcount(i & which) % 2 ? -1.0f : 1.0f;
      rotate().forward(make(d, seed).data(), d, 1, x.data(), d);  // |x| = sqrt(d)
      worst = std::max(worst, largest(x));
      energy += std::pow(static_cast<double>(x[0]), 2);
    }
    EXPECT_LT(worst, 6.0);
    EXPECT_NEAR(energy / 1000, 1.0, 0.25);  // the first coordinate gets its share: standard error 0.045
  }
}

// A single outlier channel reaches every coordinate, none with much more than its share.
TEST(Rotate, SpreadsSingleChannels) {
  for (const int d : kSizes) {
    SCOPED_TRACE(d);
    auto columns = unit_rows(d);
    rotate().forward(make(d, 5).data(), d, d, columns.data(), d);
    EXPECT_LT(largest(columns) * std::sqrt(d), d == (d & -d) ? 1.000001 : 1.415);
    for (const float v : columns) ASSERT_NE(v, 0.0f);
  }
}

// A coordinate of R u is a sum of independent signs, whose fourth moment is 3 (sum r^2 u^2)^2 - 2 sum r^4 u^4: close to
// the 3 of a Gaussian even when a ninth of the channels are outliers.
TEST(Rotate, TurnsOutlierChannelsIntoGaussians) {
  constexpr int kSeeds = 500;
  for (const int d : {64, 80, 96, 112, 128, 192, 256}) {
    SCOPED_TRACE(d);
    auto r = unit_rows(d);
    rotate().forward(make(d, 0).data(), d, d, r.data(), d);
    double measured = 0, expected = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      auto x = gaussian(static_cast<std::size_t>(d), static_cast<unsigned>(seed));
      for (std::size_t i = 0; i < x.size(); i += 9) x[i] *= 20;
      const double scale = d / norm2(x.data(), d);
      for (std::size_t i = 0; i < x.size(); ++i) {
        double second = 0, fourth = 0;
        for (std::size_t j = 0; j < x.size(); ++j) {
          const double part = std::pow(static_cast<double>(r[j * x.size() + i]) * static_cast<double>(x[j]), 2) * scale;
          second += part;
          fourth += part * part;
        }
        expected += 3 * second * second - 2 * fourth;
      }
      rotate().forward(make(d, seed).data(), d, 1, x.data(), d);
      for (const float v : x) measured += std::pow(static_cast<double>(v), 4) * scale * scale;
    }
    expected /= kSeeds * d;
    EXPECT_NEAR(measured / (kSeeds * d), expected, 0.15);
    EXPECT_GT(expected, 2.3);
    EXPECT_LE(expected, 3.0);
  }
}

// The mean of sign[i] * sign[i + lag] has standard deviation 1 / sqrt(n). Beyond 4 of them are 6 seeds in 100,000: of
// the 9 lags and 1000 seeds 0.6 are expected.
TEST(Signs, HaveNoSerialCorrelation) {
  constexpr int kSeeds = 1000, d = 128;
  int beyond = 0;
  for (int lag = 1; lag <= 64; lag = lag < 6 ? lag + 1 : 2 * lag) {
    SCOPED_TRACE(lag);
    double total = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto s = signs(d, seed);
      double sum = 0;
      for (std::size_t i = 0; i + static_cast<std::size_t>(lag) < s.size(); ++i)
        sum += static_cast<double>(s[i] * s[i + static_cast<std::size_t>(lag)]);
      EXPECT_LT(std::abs(sum), 6 * std::sqrt(d - lag)) << seed;
      beyond += std::abs(sum) > 4 * std::sqrt(d - lag);
      total += sum;
    }
    if (lag == 1) {
      EXPECT_EQ(beyond, 0);
    }
    EXPECT_LT(std::abs(total), 4 * std::sqrt(1.0 * kSeeds * (d - lag)));
  }
  EXPECT_LE(beyond, 4);
}

TEST(Signs, AreBalancedWithRunsOfFairCoins) {
  constexpr int kSeeds = 1000, d = 128;
  std::vector<double> sums(d, 0.0);
  std::vector<double> runs(8, 0.0);  // of length 1 .. 7, and longer
  double total_runs = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto s = signs(d, seed);
    double sum = 0;
    std::size_t length = 0;
    for (std::size_t i = 0; i < d; ++i) {
      sum += static_cast<double>(s[i]);
      sums[i] += static_cast<double>(s[i]);
      ++length;
      if (i + 1 == d || s[i + 1] != s[i]) {
        ++runs[std::min<std::size_t>(length, 8) - 1];
        ++total_runs;
        length = 0;
      }
    }
    EXPECT_LT(std::abs(sum), 4.5 * std::sqrt(d)) << seed;
  }
  for (const double sum : sums) EXPECT_LT(std::abs(sum), 4.5 * std::sqrt(kSeeds));
  EXPECT_NEAR(total_runs / kSeeds, (d + 1) / 2.0, 0.8);  // alternation would give d; standard error 0.18
  for (std::size_t k = 0; k < 7; ++k) EXPECT_NEAR(runs[k] / total_runs, std::pow(0.5, k + 1), 0.01) << k + 1;
}

TEST(Signs, DifferBetweenLayersHeadsAndSides) {
  std::set<std::vector<float>> seen;
  std::vector<std::vector<float>> all;
  for (const std::uint64_t seed : {0u, 1u})
    for (int layer = 0; layer < 32; ++layer)
      for (int head = 0; head < 8; ++head)
        for (int side = 0; side < 2; ++side) {
          all.push_back(signs(64, rotation_seed(seed, layer, head, side)));
          seen.insert(all.back());
        }
  EXPECT_EQ(seen.size(), all.size());
  double worst = 0;  // of 500 thousand pairs: beyond 6 standard deviations once in a thousand tries
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      double dot = 0;
      for (std::size_t k = 0; k < 64; ++k) dot += static_cast<double>(all[i][k] * all[j][k]);
      worst = std::max(worst, std::abs(dot));
    }
  EXPECT_LT(worst, 6 * std::sqrt(64));
  EXPECT_EQ(signs(64, rotation_seed(9, 3, 2, 1)), signs(64, rotation_seed(9, 3, 2, 1)));
}

TEST(Rotate, RefusesOtherSizes) {
  for (const int d : {-16, 0, 8, 24, 100, 1040}) {
    EXPECT_FALSE(can_rotate(d)) << d;
    EXPECT_THROW(rotation_bytes(d), std::logic_error) << d;
  }
  EXPECT_EQ(rotation_bytes(128), 128 * sizeof(float));
  EXPECT_EQ(rotation_bytes(96), (96 + 9) * sizeof(float));
}

}  // namespace rotate_test
}  // namespace kvasir::kernel
