#include "model/key_factors.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "model/reference_fixture.hpp"

namespace kvasir::model {
namespace key_factors_test {

using testing::RandomFile;

constexpr int kDim = 512, kD = 64;

Norm rms(const std::string& name, std::int64_t width) {
  return {NormKind::kRms, width, 1e-6f, {.name = name, .columns = width}, {}};
}
Linear linear(const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
  Linear l{.name = name + ".weight", .rows = rows, .columns = columns};
  if (bias) l.bias = {.name = name + ".bias", .columns = rows};
  return l;
}

// One layer of two KV heads and four query heads.
ModelSpec spec_of(bool biases, bool norms, kernel::RopePairs pairs) {
  ModelSpec m;
  m.arch = "test";
  m.dim = kDim;
  m.vocab = 32;
  m.embedding.tokens = {"tokens", 32, kDim};
  Rope rope{.pairs = pairs};
  for (int i = 0; i < kD / 2; ++i) rope.frequencies.push_back(std::pow(1e6, -2.0 * i / kD));
  m.ropes = {rope};
  Attention a{.heads = 4,
              .kv_heads = 2,
              .d = kD,
              .dv = kD,
              .q = linear("q", 4 * kD, kDim, biases),
              .k = linear("k", 2 * kD, kDim, biases),
              .v = linear("v", 2 * kD, kDim, biases)};
  a.scale = 0.125f;
  if (norms) {
    a.q_norm = rms("q_norm", kD);
    a.k_norm = rms("k_norm", kD);
  }
  a.o = linear("o", kDim, 4 * kD, false);
  m.layers.push_back({.norm = rms("norm", kDim),
                      .mixer = a,
                      .feed_norm = rms("feed_norm", kDim),
                      .feed = Dense{.gate = linear("gate", 64, kDim, false),
                                    .up = linear("up", 64, kDim, false),
                                    .down = linear("down", kDim, 64, false)}});
  m.head = {.norm = rms("out_norm", kDim), .output = linear("out", 32, kDim, false)};
  return m;
}

// The same file with a vector of other numbers.
void set(RandomFile* file, const std::string& name, const std::vector<float>& values) {
  file->remove(name);
  file->add(name, "f32", 1, static_cast<std::int64_t>(values.size()), values);
}

TEST(KeyFactors, PairsAreOneAndTheMeanIsOne) {
  for (const auto pairs : {kernel::RopePairs::kAdjacent, kernel::RopePairs::kSplitHalf}) {
    const ModelSpec spec = spec_of(false, true, pairs);
    const KeyFacts facts = key_facts(spec, RandomFile(spec), true);
    const std::vector<float>& s = facts.factors.at(0);
    ASSERT_EQ(s.size(), 2u * kD);
    for (int h = 0; h < 2; ++h) {
      double mean = 0;
      for (int c = 0; c < kD; ++c) mean += std::log(s[static_cast<std::size_t>(h * kD + c)]);
      EXPECT_NEAR(mean, 0, 1e-4);
      for (int i = 0; i < kD / 2; ++i) {
        const bool adjacent = pairs == kernel::RopePairs::kAdjacent;
        EXPECT_EQ(s[static_cast<std::size_t>(h * kD + (adjacent ? 2 * i : i))],
                  s[static_cast<std::size_t>(h * kD + (adjacent ? 2 * i + 1 : i + kD / 2))]);
      }
    }
  }
}

TEST(KeyFactors, AreThoseOfTheNorms) {
  const ModelSpec spec = spec_of(false, true, kernel::RopePairs::kSplitHalf);
  RandomFile file(spec);
  std::vector<float> k(kD, 1.0f), q(kD, 1.0f);
  k[5] = k[5 + kD / 2] = 16;
  q[9] = q[9 + kD / 2] = 4;
  set(&file, "k_norm", k);
  set(&file, "q_norm", q);
  const std::vector<float> s = key_facts(spec, file, true).factors.at(0);
  EXPECT_NEAR(s[5] / s[0], 4, 1e-4);    // sqrt(16)
  EXPECT_NEAR(s[9] / s[0], 0.5, 1e-4);  // 1 / sqrt(4)
  EXPECT_EQ(s[9], s[9 + kD / 2]);
}

TEST(KeyFactors, ABiasCountsWhereItTurnsFast) {
  const ModelSpec spec = spec_of(true, false, kernel::RopePairs::kSplitHalf);
  RandomFile file(spec);
  std::vector<float> bias(2 * kD, 0.0f);
  bias[0] = 100;           // turns by 1 per token
  bias[kD / 2 - 1] = 100;  // by 1.5e-6: the mean of a page holds it
  set(&file, "k.bias", bias);
  set(&file, "q.bias", std::vector<float>(4 * kD, 0.0f));
  const KeyFacts facts = key_facts(spec, file, true);
  const std::vector<float>& s = facts.factors.at(0);
  EXPECT_GT(s[0] / s[10], 5);
  EXPECT_NEAR(s[kD / 2 - 1] / s[10], 1, 0.3);
  EXPECT_NEAR(s[kD] / s[kD + 10], 1, 0.3);  // the other head has none
  // What is left of 10000 / 2 per element beside about 1: Cauchy and Schwarz, with the factors, make it small.
  set(&file, "k.bias", std::vector<float>(2 * kD, 0.0f));
  EXPECT_LT(facts.gains.at(0), 20 * key_facts(spec, file, true).gains.at(0));
}

TEST(KeyFactors, AreOneWhereTheFileDoesNotSay) {
  const ModelSpec spec = spec_of(false, false, kernel::RopePairs::kAdjacent);
  const KeyFacts facts = key_facts(spec, RandomFile(spec), true);
  EXPECT_TRUE(facts.factors.at(0).empty());
  EXPECT_EQ(facts.gains.at(0), kUnknownGain);
}

// Rows of norm 1 in expectation (RandomFile), inputs of the norm's weights, E w^2 = 1.25: gain = scale^2 d 1.25^2.
TEST(KeyFactors, TheGainIsTheNoiseOfAScore) {
  ModelSpec spec = spec_of(true, false, kernel::RopePairs::kSplitHalf);
  auto& a = std::get<Attention>(spec.layers[0].mixer);
  a.scale = 1;
  RandomFile file(spec);
  set(&file, "k.bias", std::vector<float>(2 * kD, 0.0f));
  set(&file, "q.bias", std::vector<float>(4 * kD, 0.0f));
  EXPECT_NEAR(key_facts(spec, file, true).gains.at(0) / (kD * 1.25 * 1.25), 1, 0.25);
  a.scale = 1e-3f;
  EXPECT_EQ(key_facts(spec, file, true).gains.at(0), 1);
}

// Keys of 16 in one pair beside 1: s = 16 there but for the mean logarithm, so that all are equally large. Queries of
// 1, independent: what is left per channel is 1.1 of a 64th of that pair's 256 and of 62.
TEST(KeyFactors, ATextTellsThem) {
  const ModelSpec spec = spec_of(false, false, kernel::RopePairs::kSplitHalf);
  kv::CacheShape shape =
      kv::CacheShape::uniform(1, {.kv_heads = 2, .query_heads = 4, .head_dim = kD, .head_dim_v = kD});
  constexpr int kTokens = 256;
  std::vector<float> q(kTokens * 4 * kD), k(kTokens * 2 * kD);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = i / (4 * kD) % 2 ? 1.0f : -1.0f;
  for (std::size_t i = 0; i < k.size(); ++i)
    k[i] = (i / (2 * kD) % 2 ? 1.0f : -1.0f) * (i % kD == 5 || i % kD == 5 + kD / 2 ? 16.0f : 1.0f) + 3.0f;
  kv::GainMeter meter(shape, 1, 0);
  const KeyFacts known{.factors = {{}}, .gains = {kUnknownGain}};
  const KeyFacts before = key_facts(spec, meter, {{}}, known);
  EXPECT_TRUE(before.factors.at(0).empty());
  EXPECT_EQ(before.gains.at(0), kUnknownGain);
  meter.add(0, 0, kTokens, q.data(), k.data());
  std::vector<float> moments(2 * kD * kD);
  for (std::size_t c = 0; c < 2 * kD; ++c) moments[(c / kD * kD + c % kD) * kD + c % kD] = 1;
  const KeyFacts facts = key_facts(spec, meter, {moments}, known);
  const std::vector<float>& s = facts.factors.at(0);
  ASSERT_EQ(s.size(), 2u * kD);
  EXPECT_NEAR(s[5] / s[0], 16, 1e-2);
  EXPECT_EQ(s[5], s[5 + kD / 2]);
  EXPECT_EQ(facts.metrics.at(0), moments);
  EXPECT_TRUE(has_key_factors(spec, 0));
  // Keys are of 16^(1/32) after the factors; queries are 16^(31/32) in one pair and 16^(-1/32) elsewhere, to be damped.
  const double small = std::pow(16.0, -2.0 / 32), large = std::pow(16.0, 62.0 / 32);
  const double mean = (62 * small + 2 * large) / kD;
  const double noise = std::exp((62 * std::log(small + 0.1 * mean) + 2 * std::log(large + 0.1 * mean)) / kD);
  EXPECT_NEAR(facts.gains.at(0) / (0.125 * 0.125 * kD * std::pow(16.0, 2.0 / 32) * noise), 1, 0.02);
}

// Against queries that are turned one by one.
TEST(KeyFactors, MomentsAreAveragedOverPositions) {
  for (const auto layout : {kernel::RopePairs::kSplitHalf, kernel::RopePairs::kAdjacent}) {
    ModelSpec spec = spec_of(false, false, layout);
    spec.ropes[0].frequencies.resize(kD / 4);  // the second half of the channels is not turned
    const std::size_t pairs = kD / 4;
    std::vector<double> q(kD);
    for (std::size_t c = 0; c < kD; ++c) q[c] = std::sin(3.0 * static_cast<double>(c)) + 0.2;
    std::vector<float> moments(2 * kD * kD);
    std::vector<double> want(kD * kD);
    for (std::size_t i = 0; i < kD; ++i)
      for (std::size_t j = 0; j < kD; ++j)
        moments[i * kD + j] = moments[(kD + i) * kD + j] = static_cast<float>(q[i] * q[j]);
    for (int turn = 0; turn < kTurns; ++turn) {
      std::vector<double> r = q;
      for (std::size_t i = 0; i < pairs; ++i) {
        const std::size_t x = layout == kernel::RopePairs::kAdjacent ? 2 * i : i;
        const std::size_t y = layout == kernel::RopePairs::kAdjacent ? x + 1 : i + pairs;
        const double angle = turn * spec.ropes[0].frequencies[i];
        r[x] = std::cos(angle) * q[x] - std::sin(angle) * q[y];
        r[y] = std::sin(angle) * q[x] + std::cos(angle) * q[y];
      }
      for (std::size_t i = 0; i < kD; ++i)
        for (std::size_t j = 0; j < kD; ++j) want[i * kD + j] += r[i] * r[j] / kTurns;
    }
    average_turns(spec, 0, &moments);
    for (std::size_t i = 0; i < kD * kD; ++i) {
      ASSERT_NEAR(moments[i], want[i], 1e-5) << i;
      ASSERT_EQ(moments[i], moments[kD * kD + i]) << i;
    }
  }
}

TEST(KeyFactors, DoNotDependOnTheTypeOfTheWeights) {
  const ModelSpec spec = spec_of(true, false, kernel::RopePairs::kSplitHalf);
  const KeyFacts f32 = key_facts(spec, RandomFile(spec), true);
  const KeyFacts q8 = key_facts(spec, RandomFile(spec, "q8_0"), false);
  for (std::size_t i = 0; i < f32.factors.at(0).size(); ++i)
    EXPECT_NEAR(q8.factors.at(0)[i] / f32.factors.at(0)[i], 1, 0.02);
  EXPECT_NEAR(q8.gains.at(0) / f32.gains.at(0), 1, 0.02);
}

TEST(KeyFactors, ABrokenFileIsAnError) {
  const ModelSpec spec = spec_of(true, false, kernel::RopePairs::kSplitHalf);
  RandomFile file(spec);
  file.remove("k.bias");
  EXPECT_THROW(key_facts(spec, file, true), Error);
}

}  // namespace key_factors_test
}  // namespace kvasir::model
