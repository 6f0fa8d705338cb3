#include "kv/auto_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "kv/codec_fixture.hpp"

namespace kvasir::kv {
namespace {

const CacheShape kShape = CacheShape::uniform(3, {.kv_heads = 2, .query_heads = 4, .head_dim = 64, .head_dim_v = 64});

// Max (1960), table I: the least mean square error of 4, 8 and 16 levels for a Gaussian.
TEST(AutoPolicy, DistortionsAreThoseOfLloydAndMax) {
  const std::pair<const char*, double> table[] = {{"rq2", 0.1175}, {"rq3", 0.03454}, {"rq4", 0.009497}};
  for (const auto& [name, least] : table)
    for (const int d : {64, 128, 256})
      for (const Side side : {Side::kKeys, Side::kValues}) {
        const CodecSpec spec = parse_codec(name, d, side, "test");
        const double found = relative_distortion(*spec.codec, spec.params, d, side);
        EXPECT_NEAR(found / least, 1, 0.08) << name << " " << d;
      }
  const CodecSpec f16 = parse_codec("f16", 64, Side::kKeys, "test");
  EXPECT_LT(relative_distortion(*f16.codec, f16.params, 64, Side::kKeys), 1e-6);
}

// Rows with offsets per channel, in steps of odd sizes; the meter against the definition in one pass over everything.
TEST(AutoPolicy, GainsAreTheMomentsOfQueriesAndKeys) {
  constexpr int kTokens = 300, kSinks = 4;
  constexpr float kScale = 0.125f;
  const int d = kShape.at(0).head_dim;
  std::vector<float> q = gaussian(static_cast<std::size_t>(kTokens * 4 * d), 1);
  std::vector<float> k = gaussian(static_cast<std::size_t>(kTokens * 2 * d), 2);
  for (std::size_t i = 0; i < k.size(); ++i) k[i] += static_cast<float>(i % static_cast<std::size_t>(d)) * 0.1f;
  for (std::size_t i = 0; i < q.size(); ++i)
    if (i / static_cast<std::size_t>(d) % 4 == 3) q[i] *= 3;  // the last query head is the worst

  GainMeter meter(kShape, kScale, kSinks);
  for (int layer = 0; layer < kShape.count(); ++layer)
    for (int first = 0; first < kTokens;) {
      const int n = std::min(first % 2 ? 77 : 130, kTokens - first);
      meter.add(layer, first, n, q.data() + first * 4 * d, k.data() + first * 2 * d);
      first += n;
    }
  EXPECT_EQ(meter.tokens(), kTokens - kSinks);

  double query = 0;
  for (int t = kSinks; t < kTokens; ++t)
    for (int c = 0; c < d; ++c) query += std::pow(q[static_cast<std::size_t>((t * 4 + 3) * d + c)], 2);
  query /= kTokens - kSinks;
  double deviations = 0;
  int degrees = 0;
  for (int page = 0; page * 128 < kTokens; ++page) {
    const int begin = std::max(page * 128, kSinks), end = std::min(page * 128 + 128, kTokens);
    for (int c = 0; c < d; ++c) {
      const auto at = [&](int t) { return static_cast<double>(k[static_cast<std::size_t>((t * 2 + 1) * d + c)]); };
      double mean = 0;
      for (int t = begin; t < end; ++t) mean += at(t) / (end - begin);
      for (int t = begin; t < end; ++t) deviations += std::pow(at(t) - mean, 2);
    }
    degrees += end - begin - 1;
  }
  const double want = kScale * kScale * query * deviations / degrees / d;
  for (const double gain : meter.gains()) EXPECT_NEAR(gain / want, 1, 1e-9);
}

// One channel of the second head is larger, one query head of the two that read it too.
TEST(AutoPolicy, SquaresAreByChannel) {
  constexpr int kTokens = 260, kSinks = 4;
  const int d = kShape.at(0).head_dim;
  std::vector<float> q = gaussian(static_cast<std::size_t>(kTokens * 4 * d), 1);
  std::vector<float> k = gaussian(static_cast<std::size_t>(kTokens * 2 * d), 2);
  for (int t = 0; t < kTokens; ++t) {
    k[static_cast<std::size_t>((t * 2 + 1) * d + 7)] = 5 * k[static_cast<std::size_t>((t * 2 + 1) * d + 7)] + 100;
    q[static_cast<std::size_t>((t * 4 + 3) * d + 9)] *= 3;
  }
  GainMeter meter(kShape, 1, kSinks);
  EXPECT_TRUE(meter.squares(0).keys.empty());
  meter.add(0, 0, kTokens, q.data(), k.data());
  const GainMeter::Squares s = meter.squares(0);
  ASSERT_EQ(s.keys.size(), static_cast<std::size_t>(2 * d));
  ASSERT_EQ(s.queries.size(), static_cast<std::size_t>(2 * d));
  for (int i = 0; i < 2 * d; ++i) {
    EXPECT_NEAR(s.keys[static_cast<std::size_t>(i)] / (i == d + 7 ? 25 : 1), 1, 0.4) << i;
    EXPECT_NEAR(s.queries[static_cast<std::size_t>(i)] / (i == d + 9 ? 5 : 1), 1, 0.4) << i;
  }
  EXPECT_TRUE(meter.squares(1).keys.empty());
}

// What the formula predicts is what packed pages do to scores.
TEST(AutoPolicy, PredictedNoiseIsTheNoiseOfScores) {
  for (const char* name : {"rq2", "rq4"}) {
    const int d = 128;
    codec_fixture::Subject keys(name, d, Side::kKeys);
    const std::vector<float> rows = gaussian(static_cast<std::size_t>(kPageTokens * d), 3);
    keys.seal(rows, 0);
    const std::vector<float> back = keys.unsealed();
    const std::vector<float> queries = gaussian(static_cast<std::size_t>(64 * d), 4);
    double noise = 0;
    for (int r = 0; r < 64; ++r)
      for (int t = 0; t < kPageTokens; ++t) {
        const float* q = queries.data() + r * d;
        noise +=
            std::pow(codec_fixture::dot(q, rows.data() + t * d, d) - codec_fixture::dot(q, back.data() + t * d, d), 2) /
            (64 * kPageTokens);
      }
    // scale 1, E|q|^2 = d, E|k - mu|^2 = d.
    const double predicted = d * relative_distortion(*keys.codec, keys.spec.params, d, Side::kKeys);
    EXPECT_NEAR(noise / predicted, 1, 0.1) << name;
  }
}

TEST(AutoPolicy, TakesTheFewestBitsWithinTheBudget) {
  const std::vector<double> gains = {0.01, 1, 50};
  double bytes_before = 1e9;
  for (const double budget : {1e-5, 0.01, 0.05, 0.1, 0.2, 0.5}) {
    const AutoChoice choice = choose_codecs(kShape, gains, budget);
    ASSERT_EQ(choice.layers.size(), 3u);
    EXPECT_LE(choice.largest_noise(), budget);
    CacheOptions options{.layers = choice.codecs(), .max_tokens = 4096};
    const double bytes = plan_memory(kShape, options, 1).bytes_per_token;
    EXPECT_LE(bytes, bytes_before);
    bytes_before = bytes;
  }
  const AutoChoice choice = choose_codecs(kShape, gains, 0.2);
  EXPECT_EQ(choice.layers[0].k_codec, "rq2");  // sqrt(0.01 * 0.12) = 0.03
  EXPECT_EQ(choice.layers[1].k_codec, "rq3");  // sqrt(0.034) = 0.19; rq2 would be 0.34
  EXPECT_EQ(choice.layers[2].k_codec, "rq8");  // sqrt(50 * 0.0025) = 0.35 with rq5
  for (const AutoLayer& layer : choice.layers) EXPECT_EQ(layer.v_codec, "rq3");
  EXPECT_EQ(choice.codecs().size(), 3u);
  EXPECT_EQ(codecs_text(choice.codecs()), "rq2/rq3 in layer 0, rq3 in layer 1, rq8/rq3 in layer 2");
}

// No name of a codec decides, but what its entry says.
TEST(AutoPolicy, ChoosesAmongCodecsThatSaySo) {
  std::set<std::string> chosen;
  for (double budget = 1e-4; budget < 2; budget *= 1.5)
    for (const AutoLayer& layer : choose_codecs(kShape, std::vector<double>{0.01, 1, 50}, budget).layers)
      chosen.insert({layer.k_codec, layer.v_codec});
  chosen.erase("f16");
  EXPECT_GE(chosen.size(), 4u);
  for (const std::string& name : chosen) EXPECT_TRUE(find(codecs(), name)->automatic) << name;
}

TEST(AutoPolicy, WhatFitsNowhereStaysRaw) {
  const std::vector<double> gains = {1e9, std::numeric_limits<double>::quiet_NaN(),
                                     std::numeric_limits<double>::infinity()};
  for (const AutoLayer& layer : choose_codecs(kShape, gains, 0.1).layers) EXPECT_EQ(layer.k_codec, "f16");
  CacheShape small = kShape;
  for (LayerShape& l : small.layers) l.head_dim = l.head_dim_v = 8;  // a size that no rotated codec stores
  const std::vector<double> little = {0, 0, 0};
  const AutoChoice choice = choose_codecs(small, little, 0.1);
  EXPECT_EQ(codecs_text(choice.codecs()), "f16");
  EXPECT_EQ(choice.largest_noise(), 0);
}

}  // namespace
}  // namespace kvasir::kv
