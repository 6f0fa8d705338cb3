// What a selector is asked and what becomes of its answer: every entry, and Quest's bounds.
#include "kv/selector.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kv/cache_fixture.hpp"
#include "kv/page.hpp"

namespace kvasir::kv {
namespace {

using fixture::Tokens;
using Outputs = std::vector<std::vector<float>>;

CacheShape shape() {
  CacheShape s = CacheShape::uniform(3, {2, 6, 32, 32});
  s.layers[1].window = 200;  // is not asked about
  return s;
}

CacheOptions options_for(int tokens, std::string_view selector, std::int64_t budget) {
  CacheOptions o;
  o.k_codec = o.v_codec = "rq4";
  o.selector = selector;
  o.budget = budget;
  o.max_tokens = tokens;
  o.max_sequences = 4;
  return o;
}

// Tokens [from, to) one by one, as generated ones.
Outputs decode(Cache& cache, Sequence* s, const Tokens& t, int from, int to) {
  Outputs all(cache.shape().layers.size());
  for (int i = from; i < to; ++i) {
    const auto outs = fixture::step(cache, {{s, &t, i, 1, true}});
    for (std::size_t l = 0; l < all.size(); ++l) all[l].insert(all[l].end(), outs[0][l].begin(), outs[0][l].end());
  }
  return all;
}

void expect_same_bits(const Outputs& a, const Outputs& b, const std::string& what) {
  for (std::size_t l = 0; l < a.size(); ++l) {
    ASSERT_EQ(a[l].size(), b[l].size()) << what;
    ASSERT_EQ(std::memcmp(a[l].data(), b[l].data(), a[l].size() * sizeof(float)), 0) << what << ", layer " << l;
  }
}

constexpr int kPrompt = 1500;
constexpr int kAll = kPrompt + 150;  // the generated tokens enter two blocks

Outputs run(std::string_view selector, std::int64_t budget, int threads) {
  Team team(threads);
  Cache cache(team, shape(), options_for(4 * kAll, selector, budget));
  const Tokens t = fixture::random_tokens(shape(), kAll, 41);
  Sequence* s = cache.create();
  fixture::feed(cache, s, t, 0, kPrompt, 500);
  return decode(cache, s, t, kPrompt, kAll);
}

TEST(Selector, ABudgetOfEverythingHasTheBitsOfAll) {
  const Outputs dense = run("all", 0, 2);
  for (const auto& entry : selectors()) expect_same_bits(run(entry.name, 1 << 20, 2), dense, std::string(entry.name));
}

TEST(Selector, ASmallBudgetChangesOnlyTheLayersThatAreAskedAbout) {
  const Outputs dense = run("all", 0, 1);
  for (const auto& entry : selectors()) {
    if (entry.value->dense) continue;
    const Outputs sparse = run(entry.name, 256, 1);
    EXPECT_NE(sparse[0], dense[0]) << entry.name;
    EXPECT_EQ(sparse[1], dense[1]) << entry.name;
  }
}

TEST(Selector, ThreadsAndNeighboursNeverShow) {
  for (const auto& entry : selectors()) {
    const Outputs one = run(entry.name, 384, 1);
    expect_same_bits(run(entry.name, 384, 3), one, std::string(entry.name));
    Team team(2);
    Cache cache(team, shape(), options_for(4 * kAll, entry.name, 384));
    const Tokens t = fixture::random_tokens(shape(), kAll, 41);
    const Tokens other = fixture::random_tokens(shape(), kAll, 42);
    Sequence* a = cache.create();
    Sequence* b = cache.create();
    fixture::feed(cache, a, t, 0, kPrompt, 500);
    fixture::feed(cache, b, other, 0, 700, 500);
    Outputs all(one.size());
    for (int i = kPrompt; i < kAll; ++i) {
      const auto outs = fixture::step(cache, {{b, &other, i - 800, 1, true}, {a, &t, i, 1, true}});
      for (std::size_t l = 0; l < all.size(); ++l) all[l].insert(all[l].end(), outs[1][l].begin(), outs[1][l].end());
    }
    expect_same_bits(all, one, std::string(entry.name) + " beside another");
    cache.check_integrity();
  }
}

// The prompt is exact, what a choice had a hand in is not; forks know it, cuts undo it.
TEST(Selector, WhatWasChosenForIsMarked) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 43);
  for (const auto& entry : selectors()) {
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, entry.name, 256));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    EXPECT_EQ(Cache::exact_tokens(*s), kPrompt);
    decode(cache, s, t, kPrompt, kPrompt + 3);
    const std::int64_t exact = entry.value->dense ? kPrompt + 3 : kPrompt;
    EXPECT_EQ(Cache::exact_tokens(*s), exact) << entry.name;
    Sequence* fork = cache.fork(*s);
    EXPECT_EQ(Cache::exact_tokens(*fork), exact);
    cache.truncate(fork, kPrompt);
    decode(cache, fork, t, kPrompt, kPrompt + 1);
    cache.truncate(fork, kPrompt - 5);
    EXPECT_EQ(Cache::exact_tokens(*fork), kPrompt - 5);
  }
}

TEST(Selector, RestoredPagesBringTheirSummaries) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 44);
  for (const auto& entry : selectors()) {
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, entry.name, 256));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    std::vector<std::byte> tail(cache.tail_bytes(kPrompt));
    cache.save_tail(*s, kPrompt, tail);
    Sequence* restored = cache.restore(kPrompt, tail);
    for (std::int64_t i = 0; i < cache.sealed_pages_at(kPrompt); ++i) {
      std::vector<std::byte> page;
      for (const auto piece : cache.sealed_page(*s, i)) page.insert(page.end(), piece.begin(), piece.end());
      ASSERT_EQ(page.size(), cache.memory().chunk_bytes);
      cache.fill_page(*restored, i, page);
    }
    expect_same_bits(decode(cache, restored, t, kPrompt, kPrompt + 20), decode(cache, s, t, kPrompt, kPrompt + 20),
                     std::string(entry.name));
  }
}

TEST(Selector, FewerBytesAreReadAndCounted) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 45);
  std::size_t bytes[2];
  for (const bool sparse : {false, true}) {
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, sparse ? "quest" : "all", 256));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    decode(cache, s, t, kPrompt, kPrompt + 1);
    bytes[sparse] = cache.kv_bytes_read(*s);
  }
  EXPECT_LT(bytes[1], bytes[0] * 2 / 3);
  EXPECT_GT(bytes[1], bytes[0] / 10);
}

// A page that one query head wants above all is found with a budget of one page.
TEST(Selector, QuestFindsTheNeedle) {
  CacheShape s = CacheShape::uniform(1, {1, 2, 32, 32});
  Tokens t = fixture::random_tokens(s, 1300, 46, 0.01f);
  constexpr int kNeedle = 517;
  for (int c = 0; c < 32; ++c) {
    t.k[0][static_cast<std::size_t>(kNeedle * 32 + c)] = 6.0f;
    t.q[0][static_cast<std::size_t>(1299 * 64 + 32 + c)] = 3.0f;  // of the second head
    t.v[0][static_cast<std::size_t>(kNeedle * 32 + c)] = 50.0f;
  }
  Team team(1);
  CacheOptions o = options_for(2600, "quest", 1);
  o.k_codec = o.v_codec = "f16";
  Cache cache(team, s, o);
  Sequence* sequence = cache.create();
  fixture::feed(cache, sequence, t, 0, 1299, 500);
  const Outputs out = decode(cache, sequence, t, 1299, 1300);
  for (int c = 0; c < 32; ++c) EXPECT_NEAR(out[0][static_cast<std::size_t>(32 + c)], 50.0f, 0.5f);
}

// The bound holds for keys of any sign, and leaves sinks out.
TEST(Selector, QuestBoundsEveryScore) {
  const Selector& quest = *find(selectors(), "quest");
  constexpr int d = 24;
  for (const float offset : {0.0f, -5.0f, 5.0f})
    for (const int skip : {0, 4, 127}) {
      std::vector<float> keys;
      for (int i = 0; i < d * kPageTokens; ++i)
        keys.push_back(fixture::noise(47, static_cast<std::uint64_t>(i)) + offset);
      std::vector<std::byte> summary(quest.summary_bytes(d));
      quest.summarise(d, keys.data(), skip, summary.data());
      const auto* low = reinterpret_cast<const float*>(summary.data());
      for (int trial = 0; trial < 20; ++trial) {
        double bound = 0;
        double most = -1e30;
        std::vector<double> q;
        for (int c = 0; c < d; ++c) {
          q.push_back(fixture::noise(48, static_cast<std::uint64_t>(trial * d + c)));
          bound += std::max(q.back() * low[c], q.back() * low[d + c]);
        }
        for (int token = skip; token < kPageTokens; ++token) {
          double score = 0;
          for (int c = 0; c < d; ++c)
            score += q[static_cast<std::size_t>(c)] * keys[static_cast<std::size_t>(c * kPageTokens + token)];
          most = std::max(most, score);
        }
        EXPECT_GE(bound, most - 1e-6);
        if (skip == 127) {
          EXPECT_NEAR(bound, most, 1e-6);
        }
      }
    }
}

}  // namespace
}  // namespace kvasir::kv
