#include "kv/feedback.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kv/codec_fixture.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::kv {
namespace {

using namespace codec_fixture;

// E q q^T of queries that have most of their energy in a few directions, (d, d).
std::vector<double> metric(int d, unsigned seed) {
  const auto n = static_cast<std::size_t>(d);
  std::vector<double> h(n * n);
  for (unsigned direction = 0; direction < 12; ++direction) {
    const auto q = gaussian(n, seed + direction);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) h[i * n + j] += static_cast<double>(q[i]) * q[j] / (1 + direction);
  }
  return h;
}

double cost(int d, const std::vector<double>& h, const std::vector<double>& e) {
  double sum = 0;
  for (std::size_t i = 0; i < e.size(); ++i)
    for (std::size_t j = 0; j < e.size(); ++j) sum += e[i] * h[i * static_cast<std::size_t>(d) + j] * e[j];
  return sum;
}

// (d, d) with a mean diagonal of 1 and the damping.
std::vector<double> damped(int d, std::vector<double> h) {
  const auto n = static_cast<std::size_t>(d);
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += h[i * n + i] / d;
  for (double& x : h) x /= mean;
  for (std::size_t i = 0; i < n; ++i) h[i * n + i] += kMetricDamping;
  return h;
}

TEST(Feedback, TheCostIsASumOverChannels) {
  for (const int d : {16, 80}) {
    const auto n = static_cast<std::size_t>(d);
    const std::vector<double> h = metric(d, 1);
    std::vector<float> f(feedback_floats(d));
    make_feedback(d, h.data(), f.data());
    const auto e = gaussian(n, 99);
    double sum = 0;
    const float* row = f.data() + n;
    for (std::size_t j = 0; j < n; row += j, ++j) {
      double left = e[j];
      for (std::size_t i = 0; i < j; ++i) left += static_cast<double>(row[i]) * e[i];
      sum += static_cast<double>(f[j]) * left * left;
    }
    EXPECT_NEAR(sum / cost(d, damped(d, h), {e.begin(), e.end()}), 1, 1e-5);
  }
}

TEST(Feedback, NoiseIsTheGeometricMean) {
  constexpr int kD = 16;
  std::vector<double> h(kD * kD);
  for (int c = 0; c < kD; ++c) h[static_cast<std::size_t>(c * kD + c)] = c < kD / 2 ? 19 : 1;  // mean 10
  EXPECT_NEAR(fed_back_noise(kD, h.data()), std::sqrt(20.0 * 2.0), 1e-9);
}

TEST(Feedback, WithoutAMetricChannelsAreLeftAlone) {
  std::vector<double> h(16 * 16);
  std::vector<float> f(feedback_floats(16));
  const auto alone = [&] {
    make_feedback(16, h.data(), f.data());
    for (std::size_t i = 0; i < f.size(); ++i) ASSERT_EQ(f[i], i < 16 ? 1.0f : 0.0f);
    EXPECT_EQ(fed_back_noise(16, h.data()), 0);
  };
  alone();
  h[0] = std::nan("");
  alone();
  for (int i = 0; i < 16; ++i) h[static_cast<std::size_t>(i * 17)] = i % 2 ? 3 : -1;  // no second moments
  alone();
}

TEST(Feedback, MomentsAreThoseOfTheQueriesOfAHead) {
  constexpr int kD = 16, kRows = 9, kSkip = 2;
  const LayerShape shape{.kv_heads = 2, .query_heads = 6, .head_dim = kD, .head_dim_v = kD};
  auto q = gaussian(static_cast<std::size_t>(kRows * 6 * kD), 3);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] *= i / kD % 6 == 1 ? 0.1f : 1.0f;  // a head of short queries
  const std::vector<float> all = query_moments(shape, kRows, kSkip, q.data());
  ASSERT_EQ(all.size(), 2u * kD * kD);
  const auto at = [&](int t, int g, int c) {
    return static_cast<double>(q[static_cast<std::size_t>((t * 6 + g) * kD + c)]);
  };
  double energies[6] = {};
  for (int g = 0; g < 6; ++g)
    for (int t = kSkip; t < kRows; ++t)
      for (int c = 0; c < kD; ++c) energies[g] += at(t, g, c) * at(t, g, c);
  for (int h = 0; h < 2; ++h)
    for (int i = 0; i < kD; ++i)
      for (int j = 0; j < kD; ++j) {
        double want = 0;
        for (int t = kSkip; t < kRows; ++t)
          for (int g = 3 * h; g < 3 * h + 3; ++g) {
            const double mean = (energies[3 * h] + energies[3 * h + 1] + energies[3 * h + 2]) / 3;
            want += at(t, g, i) * at(t, g, j) * mean / energies[g] / (3 * (kRows - kSkip));
          }
        EXPECT_NEAR(all[static_cast<std::size_t>((h * kD + i) * kD + j)], want, 1e-5);
      }
}

struct Errors {
  double cost = 0, energy = 0, slope = 0;
};

// Of one page in the metric; queries have it, slope is that of their scores.
Errors seal(const Subject& s, const std::vector<float>& rows, const float* feedback, const std::vector<double>& h) {
  const auto n = static_cast<std::size_t>(s.d);
  tensor::Buffer block(tensor::Tag::kCache, static_cast<std::size_t>(kPageTokens) * n * 2 + kReadSlack);
  find(codecs(), "f16")->write_k(block.data(), kPageTokens, 0, kPageTokens, rows.data(), s.d, s.d);
  tensor::Buffer scratch(tensor::Tag::kScratch, seal_floats(s.d) * sizeof(float));
  Head head = s.head();
  head.feedback = feedback;
  s.codec->k.seal(head, block.data(), 0, scratch.as<float>(), s.page->data());
  const auto back = s.unsealed();
  std::vector<double> mean(n);
  for (std::size_t i = 0; i < rows.size(); ++i) mean[i % n] += rows[i] / double{kPageTokens};
  Errors all;
  double with = 0;
  for (std::size_t t = 0; t < kPageTokens; ++t) {
    std::vector<double> k(n), e(n), stored(n);
    for (std::size_t c = 0; c < n; ++c) {
      k[c] = rows[t * n + c] - mean[c];
      stored[c] = back[t * n + c] - mean[c];
      e[c] = k[c] - stored[c];
    }
    all.cost += cost(s.d, h, e);
    all.energy += cost(s.d, h, k);
    with += cost(s.d, h, stored) - cost(s.d, h, e);  // <k^, k^> - <e, e> = 2 <k, k^> - <k, k>
  }
  all.slope = (with + all.energy) / 2 / all.energy;
  return all;
}

// `h` rotated as the codec rotates queries.
std::vector<float> feedback_of(const Subject& s, const std::vector<double>& h) {
  const auto n = static_cast<std::size_t>(s.d);
  std::vector<float> rotated(h.begin(), h.end());
  for (int side = 0; side < 2; ++side) {
    s.codec->k.to_basis(s.head(), s.d, rotated.data(), s.d);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) std::swap(rotated[i * n + j], rotated[j * n + i]);
  }
  std::vector<float> f(feedback_floats(s.d));
  make_feedback(s.d, std::vector<double>(rotated.begin(), rotated.end()).data(), f.data());
  return f;
}

// Scores of the queries have less noise, their slope is 1 with `unbiased`, and every instruction set writes the same.
TEST(Feedback, KeysAreRoundedInTheMetricOfTheirQueries) {
  for (const int d : {64, 80, 256})
    for (const char* const name : {"rq2", "rq2:unbiased", "rq3:unbiased", "rq4:unbiased", "rq5"}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(d));
      const std::vector<double> h = metric(d, 7);
      const auto rows = gaussian(static_cast<std::size_t>(kPageTokens * d), 8);
      std::vector<std::byte> first;
      simd::each_isa([&] {
        const Subject s(name, d, Side::kKeys);
        ASSERT_TRUE(s.codec->feeds_back);
        const std::vector<float> f = feedback_of(s, h);
        const Errors plain = seal(s, rows, nullptr, h);
        const Errors fed = seal(s, rows, f.data(), h);
        EXPECT_LT(fed.cost, 0.5 * plain.cost);
        if (s.spec.params.unbiased) {
          EXPECT_NEAR(fed.slope, 1, 0.02);
        }
        if (first.empty()) first = s.bytes();
        EXPECT_EQ(s.bytes(), first);
      });
    }
}

// Rows that are zero, huge or sinks stay finite, and a metric that sees nothing of a key does not blow it up.
TEST(Feedback, HardRowsStayFinite) {
  constexpr int kD = 64;
  const Subject s("rq2:unbiased", kD, Side::kKeys);
  std::vector<double> h(kD * kD);
  h[0] = 1;  // queries of one channel
  const std::vector<float> f = feedback_of(s, h);
  auto rows = gaussian(std::size_t{kPageTokens} * kD, 5);
  for (int c = 0; c < kD; ++c) {
    rows[static_cast<std::size_t>(3 * kD + c)] = 0;
    rows[static_cast<std::size_t>(4 * kD + c)] = 65504;
    rows[static_cast<std::size_t>(5 * kD + c)] = c == 0 ? 0.0f : rows[static_cast<std::size_t>(5 * kD + c)];
  }
  seal(s, rows, f.data(), h);
  const auto back = s.unsealed();
  for (std::size_t i = 0; i < back.size(); ++i) ASSERT_TRUE(std::isfinite(back[i])) << i;
  for (const std::size_t t : {std::size_t{5}, std::size_t{70}}) {
    double is = 0, was = 0;
    for (std::size_t c = 0; c < kD; ++c) {
      is += std::pow(back[t * kD + c], 2);
      was += std::pow(rows[t * kD + c], 2);
    }
    EXPECT_LT(is, 1e9) << t;  // the row of 65504 moves the page's means
    EXPECT_GT(was, 1);
  }
}

}  // namespace
}  // namespace kvasir::kv
