// Row operations against the standard library's functions in double, and equal bits on every instruction set.
#include "kernel/ops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "simd/isa_fixture.hpp"

namespace kvasir::kernel {
namespace {

constexpr std::int64_t kSizes[] = {1, 7, 16, 33, 64, 300};

std::vector<float> some(std::int64_t n, float deviation, float mean = 0) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

double exact(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kRelu2:
      return x > 0 ? x * x : 0;
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kClampedSilu:
      return std::min(x, 7.0) / (1 + std::exp(-1.702 * std::min(x, 7.0)));
    case Activation::kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Activation::kXielu:
      break;  // has a case of its own
    case Activation::kCappedSilu:
      break;  // made of others (cpu/products.cpp)
  }
  return 0;
}
// What it is multiplied with.
double exact_factor(Activation activation, double up) {
  return activation == Activation::kClampedSilu ? std::clamp(up, -7.0, 7.0) + 1 : up;
}

// f gives a row; it has the same bits on every instruction set and is near `want`.
template <class F>
void expect_near(const std::vector<double>& want, double bound, const F& f) {
  std::vector<float> first;
  simd::on_every_isa([&] {
    const std::vector<float> got = f();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(static_cast<double>(got[i]), want[i], bound * (1 + std::abs(want[i]))) << i;
    if (first.empty()) first = got;
    ASSERT_EQ(got, first);
  });
}

TEST(Ops, Activations) {
  for (int i = 0; i < kActivations; ++i)
    for (const std::int64_t n : kSizes) {
      const std::vector<float> x = some(n, 3.0f), up = some(n + 1, 1.0f);
      std::vector<double> alone, gated;
      for (std::size_t j = 0; j < x.size(); ++j) {
        alone.push_back(exact(static_cast<Activation>(i), static_cast<double>(x[j])));
        gated.push_back(alone.back() * exact_factor(static_cast<Activation>(i), static_cast<double>(up[j])));
      }
      expect_near(alone, 1e-6, [&] {
        std::vector<float> row = x;
        ops().activate[i](row.data(), n);
        return row;
      });
      expect_near(gated, 2e-6, [&] {
        std::vector<float> row(x.size());
        ops().gate[i](x.data(), up.data(), row.data(), n);
        return row;
      });
    }
}

TEST(Ops, ClampedSiluClampsBoth) {
  const std::vector<float> x = {-30.0f, -7.5f, -1.0f, 0.0f, 6.5f, 7.5f, 30.0f, 1e4f};
  const std::vector<float> up = {-30.0f, -7.5f, -6.5f, 0.5f, 6.5f, 7.5f, -1e4f, 1e4f};
  std::vector<double> want;
  for (std::size_t i = 0; i < x.size(); ++i)
    want.push_back(exact(Activation::kClampedSilu, static_cast<double>(x[i])) *
                   exact_factor(Activation::kClampedSilu, static_cast<double>(up[i])));
  expect_near(want, 2e-6, [&] {
    std::vector<float> row(x.size());
    ops().gate[static_cast<int>(Activation::kClampedSilu)](x.data(), up.data(), row.data(),
                                                           static_cast<std::int64_t>(x.size()));
    return row;
  });
}

TEST(Ops, ActivationsFarFromZero) {
  for (int i = 0; i < kActivations; ++i) {
    const std::vector<float> x = {-1e4f, -100.0f, -20.0f, -0.0f, 0.0f, 1e-20f, 20.0f, 100.0f, 1e4f};
    std::vector<double> want;
    for (const float v : x) want.push_back(exact(static_cast<Activation>(i), static_cast<double>(v)));
    expect_near(want, 1e-6, [&] {
      std::vector<float> row = x;
      ops().activate[i](row.data(), static_cast<std::int64_t>(x.size()));
      return row;
    });
    simd::on_every_isa([&] {
      float bad = std::nanf("");
      ops().activate[i](&bad, 1);
      EXPECT_TRUE(std::isnan(bad));
    });
  }
}

TEST(Ops, Xielu) {
  const Xielu by{.positive = 0.8f, .negative = 1.3f, .beta = 0.5f, .eps = -1e-6f};
  std::vector<float> x = some(300, 3.0f);
  for (const float v : {0.0f, -0.0f, -1e-7f, -1e-6f, -1e-3f, -0.4999f, -0.5f, -0.50000006f, -0.6f, -90.0f, -1e4f, 1e4f})
    x.push_back(v);
  std::vector<double> want;
  for (const float f : x) {
    const double v = static_cast<double>(f), p = static_cast<double>(by.positive), n = static_cast<double>(by.negative);
    want.push_back(v > 0 ? p * v * v + 0.5 * v
                         : n * (std::expm1(std::min(v, static_cast<double>(by.eps))) - v) + 0.5 * v);
  }
  expect_near(want, 3e-7, [&] {
    std::vector<float> row = x;
    ops().xielu(row.data(), by, static_cast<std::int64_t>(x.size()));
    return row;
  });
  simd::on_every_isa([&] {
    float bad = std::nanf("");
    ops().xielu(&bad, by, 1);
    EXPECT_TRUE(std::isnan(bad));
  });
}

// A mean far from 0 does not cost the digits of what is left.
TEST(Ops, LayerNorm) {
  for (const std::int64_t n : kSizes) {
    const std::vector<float> x = some(n, 1.0f, 50.0f), w = some(n + 1, 1.0f), b = some(n + 2, 1.0f);
    double mean = 0, square = 0;
    for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(n);
    for (const float v : x) square += std::pow(static_cast<double>(v) - mean, 2) / static_cast<double>(n);
    for (const bool biased : {false, true}) {
      std::vector<double> want;
      for (std::size_t i = 0; i < x.size(); ++i)
        want.push_back((static_cast<double>(x[i]) - mean) / std::sqrt(square + 0.01) * static_cast<double>(w[i]) +
                       (biased ? static_cast<double>(b[i]) : 0.0));
      expect_near(want, 2e-5, [&] {
        std::vector<float> row = x;
        ops().layer_norm(row.data(), w.data(), biased ? b.data() : nullptr, row.data(), n, 0.01f);
        return row;
      });
    }
  }
}

TEST(Ops, ScaleAndSoftCap) {
  for (const std::int64_t n : kSizes) {
    const std::vector<float> x = some(n, 40.0f);
    std::vector<double> scaled, capped;
    for (const float v : x) {
      scaled.push_back(static_cast<double>(v) * 0.25);
      capped.push_back(30 * std::tanh(static_cast<double>(v) / 30));
    }
    const auto in_place = [&](auto f) {
      return [&x, f] {
        std::vector<float> row = x;
        f(row.data());
        return row;
      };
    };
    expect_near(scaled, 1e-7, in_place([&](float* row) { ops().scale(row, 0.25f, n); }));
    expect_near(capped, 4e-6, in_place([&](float* row) { ops().soft_cap(row, 30.0f, n); }));
  }
}

}  // namespace
}  // namespace kvasir::kernel
