// Counts, scores, votes and reuse of choices: worked examples and properties.
#include "select/choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/error.hpp"
#include "kv/cache_fixture.hpp"
#include "select/question.hpp"
#include "select/summaries.hpp"
#include "simd/half.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::select {
namespace {

using namespace kv;

SelectSpec spec_of(const std::string& text) { return parse_select(text, "test"); }

TEST(Choice, UnitsAreAddedUpOnEveryInstructionSet) {
  float x[16 * 9];
  for (int i = 0; i < 16 * 9; ++i) x[i] = fixture::noise(7, static_cast<std::uint64_t>(i));
  simd::on_every_isa([&] {
    for (const int unit : {4, 8, 16}) {
      float sums[10];
      std::fill_n(sums, 10, -7.0f);
      choices().unit_sums(x, 9, unit, sums);
      for (int i = 0; i < 9; ++i) EXPECT_NEAR(sums[i], std::accumulate(x + i * unit, x + (i + 1) * unit, 0.0), 1e-5);
      EXPECT_EQ(sums[9], -7.0f);
    }
  });
}

// Section 2: B 128, I 1, P 96, L 32.
TEST(Choice, BlocksAreCutAsInTheExample) {
  const SelectSpec s = spec_of("ktransformers");
  const auto cut = [&](std::int64_t n) { return cut_blocks(s, n, std::max<std::int64_t>(0, (n - 1) / 128 - 1) * 128); };
  for (const std::int64_t n : {16511, 16512, 16639}) EXPECT_TRUE(cut(n).dense) << n;
  const auto expect = [&](std::int64_t n, std::int64_t first, std::int64_t last, std::int64_t tokens) {
    const BlockCut c = cut(n);
    EXPECT_FALSE(c.dense) << n;
    EXPECT_EQ(c.initial, first) << n;
    EXPECT_EQ(c.local, last) << n;
    EXPECT_EQ(c.chosen, 96) << n;
    EXPECT_EQ(c.tokens(n, 128), tokens) << n;
  };
  expect(16640, 1, 98, 16512);
  expect(16641, 1, 98, 16513);
  expect(100000, 1, 749, 16544);
  expect(131072, 1, 992, 16512);
  EXPECT_EQ(cut_blocks(spec_of("quest:block=32"), 1 << 20, (1 << 20) - 256).initial, 2);
  EXPECT_EQ(cut_blocks(spec_of("quest:block=16"), 1 << 20, (1 << 20) - 256).initial, 4);
}

// The best ones whatever the votes look like, beside a plain sort.
TEST(Choice, TheBestArePickedOfAnyVotes) {
  for (const int kind : {0, 1, 2, 3, 4})
    for (const std::int64_t n : {2, 17, 300, 2048, 9000, 140000}) {
      std::vector<float> votes;
      for (std::int64_t i = 0; i < n; ++i) {
        const float x = fixture::noise(97, static_cast<std::uint64_t>(i + 1000 * kind));
        votes.push_back(kind == 0   ? x
                        : kind == 1 ? std::exp2(60 * x)
                        : kind == 2 ? std::round(3 * x)
                        : kind == 3 ? (x > 0.9f ? std::numeric_limits<float>::quiet_NaN() : 1 + 1e-6f * x)
                                    : -std::numeric_limits<float>::infinity());
      }
      std::vector<std::int64_t> order;
      for (std::int64_t i = 3 % n; i < n; ++i) order.push_back(i);
      const auto value = [&](std::int64_t i) {
        const float x = votes[static_cast<std::size_t>(i)];
        return x == x ? x : -std::numeric_limits<float>::infinity();
      };
      std::sort(order.begin(), order.end(),
                [&](auto a, auto b) { return value(a) != value(b) ? value(a) > value(b) : a > b; });
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{40}, n / 3, n - 4, n}) {
        if (count < 1) continue;
        std::vector<std::uint64_t> keys(static_cast<std::size_t>(n));
        std::vector<std::uint8_t> picked(static_cast<std::size_t>(n));
        pick(votes.data(), 3 % n, n, count, 0, keys.data(), picked.data());
        for (std::size_t i = 0; i < order.size(); ++i)
          EXPECT_EQ(picked[static_cast<std::size_t>(order[i])], static_cast<std::int64_t>(i) < count)
              << "kind " << kind << ", " << count << " of " << n << ", rank " << i;
      }
    }
}

TEST(Choice, LevelsOfSharesMoveAndStay) {
  for (const double share : {0.1, 0.5, 0.9, 0.97, 0.999})
    EXPECT_NEAR(1 - share_of(level_of(share)), 1 - share, 0.05 * (1 - share));
  EXPECT_EQ(level_of(1), 120);
  EXPECT_EQ(level_of(0), 1);
  EXPECT_NEAR(1 - share_of(next_level(40, 0.8, 0.9)), (1 - share_of(40)) / 2, 1e-12);
  EXPECT_EQ(next_level(40, 0.92, 0.9), 40);
  EXPECT_EQ(next_level(40, 0.96, 0.9), 38);
  EXPECT_EQ(next_level(119, 0, 0.9), 120);
  EXPECT_EQ(next_level(2, 1, 0.9), 1);
  alignas(8) std::uint8_t bytes[sizeof(Levels) + 100] = {};
  Levels& levels = *reinterpret_cast<Levels*>(bytes);
  EXPECT_EQ(levels.now(), 0);
  levels.set(3, 10);
  levels.set(4, 11);
  levels.set(9, 12);
  EXPECT_EQ(levels.now(), 12);
  levels.cut(9 * 8 + 1, 8);
  EXPECT_EQ(levels.now(), 12);
  levels.cut(9 * 8, 8);  // position 72 is gone
  EXPECT_EQ(levels.now(), 11);
  levels.set(20, 13);
  levels.cut(33, 8);
  EXPECT_EQ(levels.now(), 11);
  levels.cut(32, 8);
  EXPECT_EQ(levels.now(), 10);
  levels.cut(0, 8);
  EXPECT_EQ(levels.now(), 0);
}

// Section 4.1: blocks of 4 tokens, 2 channels; queries (1, 2) and (-1, 0.5).
TEST(Choice, ScoresAreThoseOfTheExample) {
  const float keys[2][4][2] = {{{1, -2}, {3, 0}, {-1, 4}, {1, 2}}, {{-1, -1}, {-2, -3}, {-3, -1}, {-2, -3}}};
  const float importance[2][4] = {{.1f, .7f, .15f, .05f}, {.2f, .3f, .4f, .1f}};
  const float q[2][2] = {{1, 2}, {-1, 0.5f}};
  const auto score = [&](const char* name, int anchors, int block, int head) {
    const Selector& s = *find(selectors(), name);
    float page[2 * kPageTokens] = {}, weights[kPageTokens] = {};
    for (int t = 0; t < 4; ++t) {
      weights[t] = importance[block][t];
      for (int c = 0; c < 2; ++c) page[c * kPageTokens + t] = keys[block][t][c];
    }
    float representative[4], asked[4];
    s.represent({2, page, 0, 4, weights, anchors}, representative);
    s.ask ? s.ask(q[head], 2, asked) : void(std::copy_n(q[head], 2, asked));
    double sum = 0;
    for (int i = 0; i < s.width(2); ++i) sum += double{representative[i]} * double{asked[i]};
    return sum;
  };
  const struct {
    const char* name;
    int anchors;
    double scores[4];
  } examples[] = {{"mean", 1, {3, -0.5, -6, 1}},   {"max", 1, {11, -1, -3, 0.5}},    {"quest", 1, {11, 3, -3, 2.5}},
                  {"fixed", 2, {2, 0.5, -4, 1.5}}, {"dynamic", 1, {3, -3, -5, 2.5}}, {"dynamic", 2, {10, 0, -13, 3}}};
  for (const auto& e : examples)
    for (int i = 0; i < 4; ++i)
      EXPECT_NEAR(score(e.name, e.anchors, i / 2, i % 2), e.scores[i], 1e-6) << e.name << e.anchors << " " << i;
}

// Quest's bound holds for stored summaries, keys of any sign and any raw type; every instruction set scores alike.
TEST(Choice, StoredBoundsBoundEveryScore) {
  constexpr int d = 24;
  std::map<std::string, std::vector<float>> first;
  simd::on_every_isa([&] {
    for (const int block : {16, 32, 64, 128})
      for (const float offset : {0.0f, -500.0f, 0.001f})
        for (const int skip : {0, 4, 16, 127}) {
          const SelectSpec spec = spec_of("quest:block=" + std::to_string(block));
          std::vector<float> keys;
          for (int i = 0; i < d * kPageTokens; ++i)
            keys.push_back(fixture::noise(47, static_cast<std::uint64_t>(i)) * (offset == 0.001f ? 1e-4f : 1) + offset);
          std::vector<std::byte> summary(summary_bytes(spec, d));
          std::vector<float> scratch(summary_floats(spec, d));
          summarise(spec, d, keys.data(), skip, nullptr, scratch.data(), summary.data());
          const int pitch = summary_pitch(*spec.selector, d), blocks = spec.blocks_per_page(), rows = 5;
          std::vector<float> q, asked;
          for (int i = 0; i < rows * d; ++i) q.push_back(fixture::noise(48, static_cast<std::uint64_t>(i)));
          asked.resize(static_cast<std::size_t>(rows * pitch));
          for (int r = 0; r < rows; ++r) spec.selector->ask(q.data() + r * d, d, asked.data() + r * pitch);
          std::vector<float> scores(static_cast<std::size_t>(rows * blocks));
          const std::byte* const pages[] = {summary.data()};
          summaries().scores(pages, 1, blocks, pitch, asked.data(), rows, scores.data(), blocks);
          auto& before = first[std::to_string(block) + " " + std::to_string(offset) + " " + std::to_string(skip)];
          if (before.empty()) before = scores;
          EXPECT_EQ(before, scores);
          for (int r = 0; r < rows; ++r)
            for (int t = skip; t < kPageTokens; ++t) {
              double score = 0;
              for (int c = 0; c < d; ++c)
                score += double{q[static_cast<std::size_t>(r * d + c)]} *
                         double{keys[static_cast<std::size_t>(c * kPageTokens + t)]};
              ASSERT_GE(double{scores[static_cast<std::size_t>(r * blocks + t / block)]},
                        score - 1e-6 * d * std::abs(double{offset}) - 1e-5)
                  << "block " << block << " token " << t;
            }
        }
  });
}

TEST(Choice, TheBestArePickedAndTiesGoToTheLater) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto picks = [](std::vector<float> votes, std::int64_t begin, std::int64_t count, double p = 0) {
    std::vector<std::uint64_t> keys(votes.size());
    std::vector<std::uint8_t> picked(votes.size(), 9);
    pick(votes.data(), begin, static_cast<std::int64_t>(votes.size()), count, p, keys.data(), picked.data());
    std::set<int> all;
    for (std::size_t i = static_cast<std::size_t>(begin); i < picked.size(); ++i)
      if (picked[i]) all.insert(static_cast<int>(i));
    return all;
  };
  EXPECT_EQ(picks({9, 1, 5, 5, 2, 5}, 1, 2), (std::set<int>{3, 5}));
  EXPECT_EQ(picks({1, -2, -1, -3}, 0, 2), (std::set<int>{0, 2}));
  EXPECT_EQ(picks({nan, -1e30f, nan, -2e30f}, 0, 3), (std::set<int>{1, 2, 3}));
  EXPECT_EQ(picks({-0.0f, 0.0f}, 0, 1), (std::set<int>{1}));
  EXPECT_EQ(picks({0, 0}, 0, 5), (std::set<int>{0, 1}));
  EXPECT_TRUE(picks({1, 2}, 0, 0).empty());
  EXPECT_EQ(picks({0.5f, 0.3f, 0.15f, 0.05f}, 0, 4, 0.79), (std::set<int>{0, 1}));
  EXPECT_EQ(picks({0.5f, 0.3f, 0.15f, 0.05f}, 0, 4, 0.81), (std::set<int>{0, 1, 2}));
  EXPECT_EQ(picks({0.5f, 0.3f, 0.15f, 0.05f}, 0, 1, 0.99), (std::set<int>{0}));
}

TEST(Choice, VotesOfHeads) {
  constexpr int n = 300, stride = 384;
  std::vector<float> scores(2 * stride), votes(n), powers(n);
  RowVote counts[2];
  const auto fill = [&] {
    for (int r = 0; r < 2; ++r)
      for (int i = 0; i < n; ++i)
        scores[static_cast<std::size_t>(r * stride + i)] =
            8 * fixture::noise(60 + static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(i)) + 100.0f * r;
  };
  fill();
  const std::vector<float> before = scores;
  vote(Vote::kSum, scores.data(), stride, 2, 3, 290, powers.data(), counts, votes.data());
  EXPECT_EQ(votes[77], before[77] + before[stride + 77]);
  fill();
  vote(Vote::kBest, scores.data(), stride, 2, 3, 290, powers.data(), counts, votes.data());
  EXPECT_EQ(*std::max_element(votes.begin() + 3, votes.begin() + 290), 0.0f);
  fill();
  vote(Vote::kMass, scores.data(), stride, 2, 3, 290, powers.data(), counts, votes.data());
  double sum = 0;
  for (int i = 3; i < 290; ++i) {
    double expected = 0;
    for (int r = 0; r < 2; ++r) {
      double all = 0;
      for (int j = 3; j < 290; ++j) all += std::exp2(double{before[static_cast<std::size_t>(r * stride + j)]});
      expected += std::exp2(double{before[static_cast<std::size_t>(r * stride + i)]}) / all;
    }
    EXPECT_NEAR(votes[static_cast<std::size_t>(i)], expected, 1e-5);
    sum += double{votes[static_cast<std::size_t>(i)]};
  }
  EXPECT_NEAR(sum, 2, 1e-4);
}

// Section 5.2: B = 4, so a unit is one token.
TEST(Choice, VotesArePooledAsInTheExample) {
  const float importance[] = {1, 0, 0, 0, 0, 0, 0, 8, 0, 2, 0, 0};
  float votes[3];
  pool_units(importance, 4, 1, votes);
  EXPECT_EQ(votes[0], 1);
  EXPECT_EQ(votes[1], 8);
  EXPECT_EQ(votes[2], 10);
  // Single tokens with a kernel of 3 and of 7, and none: SnapKV's pooling, but for its division.
  float tokens[12];
  pool_units(importance, 1, 1, tokens);
  EXPECT_EQ(std::vector<float>(tokens, tokens + 12), (std::vector<float>{1, 1, 0, 0, 0, 0, 8, 8, 10, 2, 2, 0}));
  pool_units(importance, 1, 3, tokens);
  EXPECT_EQ(std::vector<float>(tokens, tokens + 12), (std::vector<float>{1, 1, 1, 1, 8, 8, 10, 10, 10, 10, 10, 2}));
  pool_units(importance, 1, 0, tokens);
  EXPECT_EQ(std::vector<float>(tokens, tokens + 12), std::vector<float>(importance, importance + 12));
}

TEST(Choice, RunsJoinNeighboursWithinAPage) {
  for (const int block : {1, 8, 16, 32, 64, 128}) {
    const int per_page = kPageTokens / block;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const int blocks = per_page * 5;
      std::vector<std::uint8_t> picked;
      for (int i = 0; i < blocks; ++i)
        picked.push_back(seed == 0 || fixture::noise(seed, static_cast<std::uint64_t>(i)) > 0);
      std::vector<PageRun> runs(static_cast<std::size_t>(5 * runs_per_page(block)));
      const int n = runs_of(picked.data(), blocks, block, runs.data());
      ASSERT_LE(n, 5 * runs_per_page(block));
      std::vector<std::uint8_t> back(picked.size());
      for (int i = 0; i < n; ++i) {
        const PageRun& r = runs[static_cast<std::size_t>(i)];
        int tokens = 0;
        for (int t = r.begin; t < r.end; ++t) {
          EXPECT_TRUE(r.hides || !r.is_hidden(t));
          tokens += !r.is_hidden(t);
          if (t % block == 0 && !r.is_hidden(t)) back[static_cast<std::size_t>(r.page * per_page + t / block)]++;
        }
        EXPECT_EQ(tokens, r.tokens());
      }
      EXPECT_EQ(back, picked);
      if (seed == 0) {
        EXPECT_EQ(n, 5);
      }
    }
  }
}

// A choice is forgotten where the query that made it is.
TEST(Choice, CutsForgetWhatLaterQueriesChose) {
  ChoiceState s{.chosen_at = 101, .local = 3, .voted_at = 91, .voted_to = 2};
  s.cut(101);
  EXPECT_EQ(s.chosen_at, 101);
  s.cut(100);
  EXPECT_EQ(s.chosen_at, 0);
  EXPECT_EQ(s.voted_at, 91);
  s.cut(90);
  EXPECT_EQ(s.voted_at, 0);
}

TEST(Choice, SpecsAreReadAndRefused) {
  const SelectSpec s = spec_of("ktransformers:budget=10%:block=64:floor=0.9");
  EXPECT_EQ(s.kind, "dynamic");
  EXPECT_EQ(s.block, 64);
  EXPECT_TRUE(s.shared);
  EXPECT_EQ(s.budget_of(1000), 100);
  EXPECT_EQ(s.summaries(), "dynamic 64");
  EXPECT_EQ(spec_of("sink_recent").summaries(), "none");
  EXPECT_TRUE(spec_of("all").dense());
  EXPECT_FALSE(spec_of("snapkv").dense());
  const SelectSpec window = spec_of("snapkv_window:block=1:budget=256");
  EXPECT_EQ(window.window, 32);
  EXPECT_EQ(window.preselect, -1);
  EXPECT_EQ(window.pooled(), 3);
  EXPECT_EQ(spec_of("snapkv:block=8").pooled(), 2);
  EXPECT_EQ(spec_of("quest:block=8").blocks_per_page(), 16);
  EXPECT_NE(spec_of("snapkv_window").refused_in(spec_of("snapkv")), nullptr);
  EXPECT_EQ(spec_of("snapkv").refused_in(spec_of("snapkv_window")), nullptr);
  EXPECT_NE(spec_of("snapkv:pool=1").refused_in(spec_of("snapkv")), nullptr);
  for (const char* bad : {"",
                          "nothing",
                          "quest:",
                          "quest:budget",
                          "quest:budget=",
                          "quest:budget=0",
                          "quest:budget=0%",
                          "quest:budget=101%",
                          "quest:block=48",
                          "quest:blocks=64",
                          "quest:heads=one",
                          "quest:p=2",
                          "quest:p=nan",
                          "quest:block=1",
                          "quest:window=8",
                          "snapkv:window=129",
                          "snapkv:pool=-1",
                          "snapkv:block=4",
                          "quest:anchors=0",
                          "fixed:anchors=65",
                          "quest:budget=1e3",
                          "quest:local=-1"})
    EXPECT_THROW(spec_of(bad), Error) << bad;
  for (const auto& [theirs, ours] : {std::pair{"MAX", "'max'"}, {"FIX", "'fixed'"}, {"qest", "'quest'"}}) try {
      spec_of(theirs);
      ADD_FAILURE() << theirs;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("did you mean " + std::string(ours)), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace kvasir::select
