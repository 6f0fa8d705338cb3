#include "model/key_factors.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "model/reference_fixture.hpp"

namespace kvasir::model {
namespace {

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

// Keys of 16 in one pair beside 1, queries of 1: s = 2 there, and the noise is (62 + 2 16)^2 / 64 in place of
// (62 + 2 256) 64 / 64.
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
  const KeyFacts before = key_facts(spec, meter, known);
  EXPECT_TRUE(before.factors.at(0).empty());
  EXPECT_EQ(before.gains.at(0), kUnknownGain);
  meter.add(0, 0, kTokens, q.data(), k.data());
  const KeyFacts facts = key_facts(spec, meter, known);
  const std::vector<float>& s = facts.factors.at(0);
  ASSERT_EQ(s.size(), 2u * kD);
  EXPECT_NEAR(s[5] / s[0], 4, 1e-3);  // sqrt(16)
  EXPECT_EQ(s[5], s[5 + kD / 2]);
  const KeyFacts kept = key_facts(spec, meter, {.factors = {std::vector<float>(2 * kD, 1.0f)}, .gains = {2}});
  EXPECT_EQ(kept.factors.at(0)[5], 1);  // the file's word counts
  EXPECT_EQ(kept.gains.at(0), 2);
  EXPECT_TRUE(text_would_tell(spec, known));
  EXPECT_FALSE(text_would_tell(spec, kept));
  EXPECT_NEAR(facts.gains.at(0) / (0.125 * 0.125 * (62 + 2 * 16) * (62 + 2 * 16) / kD), 1, 0.02);
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

}  // namespace
}  // namespace kvasir::model
