// What selectors count and measure, what follows from it, and what stands for the tokens that are not read.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "select/choice.hpp"
#include "select/selector_fixture.hpp"
#include "select/spec.hpp"
#include "simd/half.hpp"

namespace kvasir::select {
namespace {

using namespace kv;

using fixture::decode;
using fixture::expect_same_bits;
using fixture::kAll;
using fixture::kPrompt;
using fixture::options_for;
using fixture::Outputs;
using fixture::run;
using fixture::shape;
using fixture::Tokens;

TEST(SelectorStats, FewerBytesAreReadAndCounted) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 45);
  std::size_t bytes[2];
  for (const bool sparse : {false, true}) {
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, sparse ? "quest:budget=512:meter=1" : "all"));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    decode(cache, s, t, kPrompt, kPrompt + 1);
    bytes[sparse] = cache.stats(*s).kv_bytes_read;
    const SelectionStats::Layer total = cache.stats(*s).selection.total();
    if (!sparse) {
      EXPECT_EQ(total.chosen, 0);
      continue;
    }
    EXPECT_EQ(cache.stats(*s).selection.layers.size(), 2u);
    EXPECT_EQ(total.chosen, 2);
    EXPECT_EQ(total.measured, 2);
    EXPECT_EQ(total.seen, 2 * (kPrompt + 1));
    EXPECT_EQ(total.read, 2 * (512 + (kPrompt + 1) % 64));  // whole blocks and what follows the last one
    EXPECT_GT(total.mass, 0.2);
    EXPECT_LT(total.mass, 2.0);
  }
  EXPECT_LT(bytes[1], bytes[0] * 2 / 3);
  EXPECT_GT(bytes[1], bytes[0] / 10);
}

// The measured mass is that of softmax over all keys, in float64.
TEST(SelectorStats, MeasuredMassIsThatOfTheSoftmax) {
  const CacheShape s = CacheShape::uniform(1, {1, 2, 32, 32});
  constexpr int n = 900;
  const Tokens t = fixture::random_tokens(s, n, 50, 3.0f);
  Team team(1);
  CacheOptions o = options_for(4 * n, "sink_recent:block=16:initial=64:local=64:budget=128:meter=1");
  o.k_codec = o.v_codec = "f16";
  Cache cache(team, s, o);
  Sequence* sequence = cache.create();
  fixture::feed(cache, sequence, t, 0, n - 1, 500);
  decode(cache, sequence, t, n - 1, n);
  double expected = 0;
  const std::int64_t raw = cache.stats(*sequence).sealed_tokens;
  for (int h = 0; h < 2; ++h) {
    double all = 0, read = 0;
    for (int i = 0; i < n; ++i) {
      double score = 0;
      for (int c = 0; c < 32; ++c)
        score += double{t.q[0][static_cast<std::size_t>(((n - 1) * 2 + h) * 32 + c)]} *
                 double{t.k[0][static_cast<std::size_t>(i * 32 + c)]} / std::sqrt(32.0);
      all += std::exp(score);
      if (i < 64 || i >= raw) read += std::exp(score);
    }
    expected += read / all / 2;
  }
  EXPECT_NEAR(cache.stats(*sequence).selection.total().mass, expected, 1e-3);
}

// It holds what no other choice of as many blocks exceeds, and reads all keys for it.
TEST(SelectorStats, KeysHoldTheBest) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 58, 3.0f);
  const auto stats = [&](const std::string& spec, std::size_t* bytes) {
    Team team(2);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    decode(cache, s, t, kPrompt, kAll);
    *bytes = cache.stats(*s).kv_bytes_read;
    return cache.stats(*s).selection.total();
  };
  for (const char* rest : {":budget=320:block=16:meter=1", ":budget=512:block=64:meter=1",
                           ":budget=30%:block=128:meter=1", ":budget=90%:block=16:p=0.5:meter=1"}) {
    std::size_t bytes = 0, fewer = 0;
    const SelectionStats::Layer f = stats(std::string("keys") + rest, &bytes);
    EXPECT_EQ(f.measured, 2 * (kAll - kPrompt)) << rest;
    EXPECT_NEAR(f.mass, f.best, 1e-5 * f.best) << rest;
    if (std::string_view(rest).find(":p=") != std::string_view::npos) continue;
    const SelectionStats::Layer other = stats(std::string("mean") + rest, &fewer);
    EXPECT_EQ(f.read, other.read) << rest;
    EXPECT_LT(other.mass, f.mass * 0.999) << rest;
    EXPECT_LT(fewer, bytes) << rest;
  }
}

TEST(SelectorStats, BelowTheFloorEverythingIsRead) {
  const Outputs dense = run("all", 1);
  expect_same_bits(run("sink_recent:budget=256:meter=1:floor=1", 2), dense, "floor");
  Team team(1);
  Cache cache(team, shape(), options_for(4 * kAll, "sink_recent:budget=256:meter=1:floor=1"));
  const Tokens t = fixture::random_tokens(shape(), kAll, 41);
  Sequence* s = cache.create();
  fixture::feed(cache, s, t, 0, kPrompt, 500);
  decode(cache, s, t, kPrompt, kPrompt + 4);
  EXPECT_EQ(cache.stats(*s).selection.total().dense, 8);
  EXPECT_EQ(Rules::exact_tokens(*s), kPrompt + 4);
}

// A layer's share moves until its choices hold what is wanted; in another sequence it begins anew.
TEST(SelectorStats, SharesFollowWhatIsMeasured) {
  const CacheShape s = CacheShape::uniform(2, {2, 4, 32, 32});
  const Tokens t = fixture::random_tokens(s, 1500, 57, 3.0f);
  const auto mass_of = [&](const std::string& spec) {
    Team team(2);
    CacheOptions o = options_for(6000, spec);
    Cache cache(team, s, o);
    Sequence* sequence = cache.create();
    fixture::feed(cache, sequence, t, 0, 1400, 500);
    decode(cache, sequence, t, 1400, 1460);
    const auto before = cache.stats(*sequence).selection.total();
    decode(cache, sequence, t, 1460, 1500);
    const auto after = cache.stats(*sequence).selection.total();
    return std::pair{(after.mass - before.mass) / static_cast<double>(after.measured - before.measured),
                     (after.read - before.read) / (after.seen - before.seen)};
  };
  const std::string spec = "spread:block=16:local=128:budget=90%:meter=2";
  const auto [little, few] = mass_of(spec + ":p=0.3");
  const auto [more, some] = mass_of(spec + ":p=0.3:aim=0.9");
  const auto [much, many] = mass_of(spec + ":p=0.999:aim=0.7");
  const auto [all, most] = mass_of(spec + ":p=0.999");
  EXPECT_LT(little, 0.8);
  EXPECT_GT(more, 0.87);
  EXPECT_LT(more, 0.98);
  EXPECT_LT(much, all - 0.02);
  EXPECT_GT(much, 0.67);
  EXPECT_LT(few, some);
  EXPECT_LT(many, most);
  EXPECT_THROW(parse_select("spread:aim=0.9", "test"), Error);
  EXPECT_THROW(parse_select("spread:p=0.9:aim=0.9:meter=0", "test"), Error);
}

// In float64: read tokens with their scores, and the others as one, with the mean of their values and the mass that the
// means of their blocks' keys promise.
TEST(SelectorStats, TheTailIsTheMeanOfWhatIsNotRead) {
  const CacheShape s = CacheShape::uniform(1, {1, 2, 32, 32});
  constexpr int n = 900, kBlock = 16, kD = 32;
  const Tokens t = fixture::random_tokens(s, n, 53, 1.0f);
  const std::string spec = "mean:block=16:initial=64:local=64:budget=320:meter=0";
  std::vector<float> outs[2];
  std::int64_t sealed = 0;
  for (const bool tail : {false, true}) {
    Team team(1);
    CacheOptions o = options_for(4 * n, spec + (tail ? ":tail=mean" : ""));
    o.k_codec = o.v_codec = "f16";
    Cache cache(team, s, o);
    Sequence* sequence = cache.create();
    fixture::feed(cache, sequence, t, 0, n - 1, 500);
    outs[tail] = decode(cache, sequence, t, n - 1, n)[0];
    sealed = cache.stats(*sequence).sealed_tokens;
  }
  const auto f16 = [](double x) {
    return static_cast<double>(simd::f16_to_f32(simd::f32_to_f16(static_cast<float>(x))));
  };
  const auto key = [&](int i, int c) { return f16(t.k[0][static_cast<std::size_t>(i * kD + c)]); };
  const auto value = [&](int i, int c) { return f16(t.v[0][static_cast<std::size_t>(i * kD + c)]); };
  const auto query = [&](int h, int c) { return double{t.q[0][static_cast<std::size_t>(((n - 1) * 2 + h) * kD + c)]}; };
  const BlockCut cut = cut_blocks(parse_select(spec, "test"), n, sealed);
  ASSERT_FALSE(cut.dense);
  // Scores of blocks, and the votes that choose: shares of the scores' powers, summed over the heads.
  std::vector<double> score[2];
  std::vector<std::pair<double, std::int64_t>> votes;
  for (int h = 0; h < 2; ++h) {
    double all = 0;
    for (std::int64_t b = 0; b < cut.local; ++b) {
      double sum = 0;
      for (int c = 0; c < kD; ++c) {
        double mean = 0;
        for (int i = 0; i < kBlock; ++i) mean += key(static_cast<int>(b) * kBlock + i, c) / kBlock;
        sum += query(h, c) * f16(mean) / std::sqrt(double{kD});
      }
      score[h].push_back(std::exp(sum));
      if (b >= cut.initial) all += score[h].back();
    }
    for (std::int64_t b = cut.initial; b < cut.local; ++b) {
      if (h == 0) votes.emplace_back(0.0, b);
      votes[static_cast<std::size_t>(b - cut.initial)].first += score[h][static_cast<std::size_t>(b)] / all;
    }
  }
  std::sort(votes.rbegin(), votes.rend());
  std::vector<bool> read(static_cast<std::size_t>(cut.local), false);
  for (std::int64_t b = 0; b < cut.initial; ++b) read[static_cast<std::size_t>(b)] = true;
  for (std::int64_t i = 0; i < cut.chosen; ++i)
    read[static_cast<std::size_t>(votes[static_cast<std::size_t>(i)].second)] = true;
  double wrong[2] = {}, size = 0;
  for (int h = 0; h < 2; ++h)
    for (int c = 0; c < kD; ++c) {
      double sum = 0, out = 0, mass = 0, mean = 0, unread = 0, dense_sum = 0, dense = 0;
      for (int i = 0; i < n; ++i) {
        double x = 0;
        for (int k = 0; k < kD; ++k) x += query(h, k) * key(i, k) / std::sqrt(double{kD});
        const double w = std::exp(x);
        dense_sum += w, dense += w * value(i, c);
        if (i / kBlock >= cut.local || read[static_cast<std::size_t>(i / kBlock)]) {
          sum += w, out += w * value(i, c);
        } else {
          ++unread, mean += value(i, c);
          if (i % kBlock == 0) mass += kBlock * score[h][static_cast<std::size_t>(i / kBlock)];
        }
      }
      ASSERT_GT(unread, 300);
      const auto at = static_cast<std::size_t>(h * kD + c);
      EXPECT_NEAR(outs[1][at], (out + mass * mean / unread) / (sum + mass), 1e-3) << h << ' ' << c;
      EXPECT_NEAR(outs[0][at], out / sum, 1e-3) << h << ' ' << c;
      dense /= dense_sum;
      size += dense * dense;
      for (const int tail : {0, 1}) wrong[tail] += std::pow(static_cast<double>(outs[tail][at]) - dense, 2);
    }
  EXPECT_LT(wrong[1], wrong[0]);  // nearer to dense attention
  EXPECT_GT(wrong[0], 1e-4 * size);
}

// What is kept of a sequence's values follows from its tokens, also when they were others before.
TEST(SelectorStats, ACutSequenceForgetsTheValuesThatWent) {
  const CacheShape s = CacheShape::uniform(2, {2, 4, 32, 32});
  const Tokens a = fixture::random_tokens(s, 1400, 54), b = fixture::random_tokens(s, 1400, 55);
  CacheOptions o = options_for(5600, "spread:budget=256:block=16:tail=mean");
  o.k_codec = o.v_codec = "f16";
  Team team(2);
  Cache cache(team, s, o);
  Sequence* cut = cache.create();
  fixture::feed(cache, cut, a, 0, 1300, 500);
  decode(cache, cut, a, 1300, 1302);
  cache.truncate(cut, 700);
  fixture::feed(cache, cut, b, 700, 1350, 500);
  Sequence* fresh = cache.create();
  fixture::feed(cache, fresh, a, 0, 700, 500);
  fixture::feed(cache, fresh, b, 700, 1350, 500);
  expect_same_bits(decode(cache, cut, b, 1350, 1360), decode(cache, fresh, b, 1350, 1360), "cut");
}

TEST(SelectorStats, ATailWantsScoresThatEstimate) {
  for (const char* spec : {"quest:tail=mean", "sink_recent:tail=mean", "all:preselect=4:tail=mean", "max:tail=mean",
                           "spread:tail=mean:token_step=2", "mean:tail=mean:layer_step=2", "spread:tail=more"})
    EXPECT_THROW(parse_select(spec, "test"), Error) << spec;
  Team team(1);
  Cache plain(team, shape(), options_for(kAll, "spread")), tail(team, shape(), options_for(kAll, "spread:tail=mean"));
  EXPECT_THROW(plain.set_selection(plain.create(), read_selector("spread:tail=mean", "test")), Error);
  tail.set_selection(tail.create(), read_selector("spread:budget=100", "test"));
  EXPECT_GT(tail.memory().chunk_bytes, plain.memory().chunk_bytes);
  EXPECT_NE(parse_select("spread:tail=mean", "test").summaries(), parse_select("spread", "test").summaries());
}

}  // namespace
}  // namespace kvasir::select
