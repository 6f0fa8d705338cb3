// Selectors in a cache: what becomes of a choice, whatever the threads, steps, forks, cuts and restarts; every entry.
#include "kv/selector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "kv/choice.hpp"
#include "kv/outputs_fixture.hpp"
#include "kv/page.hpp"
#include "kv/select_spec.hpp"
#include "simd/bf16_products.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::kv {
namespace {

using fixture::decode;
using fixture::expect_same_bits;
using fixture::Outputs;
using fixture::Tokens;

CacheShape shape() {
  CacheShape s = CacheShape::uniform(3, {2, 6, 32, 32});
  s.layers[1].window = 200;  // is not asked about
  return s;
}

CacheOptions options_for(int tokens, const std::string& selector) {
  CacheOptions o;
  o.k_codec = o.v_codec = "rq4";
  o.selector = selector;
  o.max_tokens = tokens;
  o.max_sequences = 4;
  return o;
}

constexpr int kPrompt = 1500;
constexpr int kAll = kPrompt + 60;  // the generated tokens enter a block

Outputs run(const std::string& selector, int threads, int chunk = 500) {
  Team team(threads);
  Cache cache(team, shape(), options_for(4 * kAll, selector));
  const Tokens t = fixture::random_tokens(shape(), kAll, 41);
  Sequence* s = cache.create();
  fixture::feed(cache, s, t, 0, kPrompt, chunk);
  return decode(cache, s, t, kPrompt, kAll);
}

// Every entry with few tokens to read, and the parameters that have code of their own.
std::vector<std::string> small_choices() {
  std::vector<std::string> all;
  for (const auto& e : selectors())
    if (std::string(e.name) != "all")
      all.push_back(std::string(e.name) + ":budget=512:local=128:meter=16:from=0:floor=0");
  for (const char* more :
       {"quest:budget=512:block=16", "quest:budget=30%:block=128:vote=best", "mean:budget=512:block=32:heads=shared",
        "quest:budget=512:heads=shared:vote=best:local=64", "quest:budget=512:token_step=10",
        "quest:budget=512:layer_step=2", "mean:budget=512:token_step=7:layer_step=2:heads=shared",
        "quest:budget=512:dense_layers=1", "quest:budget=512:preselect=12:block=32",
        "quest:budget=512:block=16:meter=8:floor=0.8", "dynamic:anchors=3:budget=512:block=32",
        "spread:p=0.5:budget=1024:block=16", "max:budget=512:block=16:preselect=20:token_step=3:heads=shared",
        "spread:p=0.8:budget=1024:block=16:meter=4:aim=0.8", "spread:budget=512:tail=mean",
        "mean:budget=512:block=16:heads=shared:tail=mean", "spread:budget=512:block=32:preselect=12:tail=mean",
        "topp:budget=512:from=0:p=0.5:tail=mean", "keys:budget=512:block=16:heads=shared:token_step=5",
        "keys:budget=512:layer_step=2:preselect=20",
        // few of many blocks: outlines are asked first
        "quest:budget=144:block=16:local=32:initial=16", "mean:budget=144:block=16:local=32:initial=16:heads=shared",
        "spread:budget=144:block=16:local=32:initial=16:tail=mean",
        "quest:budget=144:block=16:local=32:initial=16:vote=best:token_step=5"})
    all.push_back(more);
  return all;
}

TEST(Selector, ABudgetOfEverythingHasTheBitsOfAll) {
  const Outputs dense = run("all", 2);
  for (const auto& entry : selectors())
    expect_same_bits(run(std::string(entry.name) + ":budget=100000", 2), dense, std::string(entry.name));
  expect_same_bits(run("spread:budget=100000:tail=mean", 2), dense, "with a tail");
}

// The list of a choice is that of everything when everything is chosen one by one.
TEST(Selector, AllChosenBlocksHaveTheBitsOfAll) {
  const Outputs dense = run("all", 1);
  for (const char* spec : {"all:preselect=1000:budget=512:block=16", "quest:preselect=1000:budget=99%:block=16:p=1"}) {
    Team team(2);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
    const Tokens t = fixture::random_tokens(shape(), kAll, 41);
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    Outputs first = decode(cache, s, t, kPrompt, kPrompt + 1);
    for (std::size_t l = 0; l < first.size(); ++l)
      EXPECT_EQ(std::memcmp(first[l].data(), dense[l].data(), first[l].size() * sizeof(float)), 0) << spec;
    EXPECT_EQ(Cache::exact_tokens(*s), kPrompt + 1) << spec;
  }
}

TEST(Selector, ASmallBudgetChangesOnlyTheLayersThatAreAskedAbout) {
  const Outputs dense = run("all", 1);
  for (const std::string& spec : small_choices()) {
    const Outputs sparse = run(spec, 1);
    EXPECT_NE(sparse[2], dense[2]) << spec;
    EXPECT_EQ(sparse[1], dense[1]) << spec;
    if (spec.find("dense_layers=1") != std::string::npos) {
      EXPECT_EQ(sparse[0], dense[0]) << spec;
    }
  }
}

TEST(Selector, ThreadsChunksAndNeighboursNeverShow) {
  for (const std::string& spec : small_choices()) {
    const Outputs one = run(spec, 1);
    expect_same_bits(run(spec, 3, 37), one, spec);
    Team team(2);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
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
    expect_same_bits(all, one, spec + " beside another");
    cache.check_integrity();
  }
}

// float32 kernels have the same bits everywhere; so have choices.
TEST(Selector, InstructionSetsNeverShow) {
  const Tokens t = fixture::random_tokens(shape(), 800, 49);
  for (const char* spec : {"quest:budget=320:block=16", "spread:budget=320:block=32", "dynamic:budget=320:heads=shared",
                           "mean:budget=320:preselect=6:block=32"}) {
    Outputs first;
    simd::on_every_isa([&] {
      if (simd::multiplies_bf16(simd::active())) return;
      Team team(2);
      CacheOptions o = options_for(3200, spec);
      o.k_codec = o.v_codec = "f16";
      Cache cache(team, shape(), o);
      Sequence* s = cache.create();
      fixture::feed(cache, s, t, 0, 700, 500);
      const Outputs here = decode(cache, s, t, 700, 710);
      if (first.empty()) first = here;
      expect_same_bits(here, first, spec);
    });
  }
}

// The prompt is exact, what a choice had a hand in is not; forks know it, cuts undo it.
TEST(Selector, WhatWasChosenForIsMarked) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 43);
  for (const std::string& spec : small_choices()) {
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    EXPECT_EQ(Cache::exact_tokens(*s), kPrompt);
    const Outputs first = decode(cache, s, t, kPrompt, kPrompt + 3);
    EXPECT_LT(Cache::exact_tokens(*s), kPrompt + 3) << spec;
    Sequence* fork = cache.fork(*s);
    EXPECT_EQ(Cache::exact_tokens(*fork), Cache::exact_tokens(*s));
    expect_same_bits(decode(cache, fork, t, kPrompt + 3, kPrompt + 8), decode(cache, s, t, kPrompt + 3, kPrompt + 8),
                     spec + " forked");
    cache.truncate(fork, kPrompt);
    EXPECT_EQ(Cache::exact_tokens(*fork), kPrompt);
    expect_same_bits(decode(cache, fork, t, kPrompt, kPrompt + 3), first, spec + " cut");
    cache.truncate(fork, kPrompt - 5);
    EXPECT_EQ(Cache::exact_tokens(*fork), kPrompt - 5);
  }
}

TEST(Selector, RestoredPagesBringTheirSummaries) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 44);
  for (const std::string& spec : small_choices()) {
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
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
                     spec);
  }
}

TEST(Selector, FewerBytesAreReadAndCounted) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 45);
  std::size_t bytes[2];
  for (const bool sparse : {false, true}) {
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, sparse ? "quest:budget=512:meter=1" : "all"));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    decode(cache, s, t, kPrompt, kPrompt + 1);
    bytes[sparse] = cache.kv_bytes_read(*s);
    const SelectionFigures::Layer total = cache.selection_figures(*s).total();
    if (!sparse) {
      EXPECT_EQ(total.chosen, 0);
      continue;
    }
    EXPECT_EQ(cache.selection_figures(*s).layers.size(), 2u);
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
TEST(Selector, MeasuredMassIsThatOfTheSoftmax) {
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
  const std::int64_t raw = cache.sealed_tokens(*sequence);
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
  EXPECT_NEAR(cache.selection_figures(*sequence).total().mass, expected, 1e-3);
}

// It holds what no other choice of as many blocks exceeds, and reads all keys for it.
TEST(Selector, KeysHoldTheBest) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 58, 3.0f);
  const auto figures = [&](const std::string& spec, std::size_t* bytes) {
    Team team(2);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    decode(cache, s, t, kPrompt, kAll);
    *bytes = cache.kv_bytes_read(*s);
    return cache.selection_figures(*s).total();
  };
  for (const char* rest : {":budget=320:block=16:meter=1", ":budget=512:block=64:meter=1",
                           ":budget=30%:block=128:meter=1", ":budget=90%:block=16:p=0.5:meter=1"}) {
    std::size_t bytes = 0, fewer = 0;
    const SelectionFigures::Layer f = figures(std::string("keys") + rest, &bytes);
    EXPECT_EQ(f.measured, 2 * (kAll - kPrompt)) << rest;
    EXPECT_NEAR(f.mass, f.best, 1e-5 * f.best) << rest;
    if (std::string_view(rest).find(":p=") != std::string_view::npos) continue;
    const SelectionFigures::Layer other = figures(std::string("mean") + rest, &fewer);
    EXPECT_EQ(f.read, other.read) << rest;
    EXPECT_LT(other.mass, f.mass * 0.999) << rest;
    EXPECT_LT(fewer, bytes) << rest;
  }
}

TEST(Selector, BelowTheFloorEverythingIsRead) {
  const Outputs dense = run("all", 1);
  expect_same_bits(run("sink_recent:budget=256:meter=1:floor=1", 2), dense, "floor");
  Team team(1);
  Cache cache(team, shape(), options_for(4 * kAll, "sink_recent:budget=256:meter=1:floor=1"));
  const Tokens t = fixture::random_tokens(shape(), kAll, 41);
  Sequence* s = cache.create();
  fixture::feed(cache, s, t, 0, kPrompt, 500);
  decode(cache, s, t, kPrompt, kPrompt + 4);
  EXPECT_EQ(cache.selection_figures(*s).total().dense, 8);
  EXPECT_EQ(Cache::exact_tokens(*s), kPrompt + 4);
}

// A layer's share moves until its choices hold what is wanted; in another sequence it begins anew.
TEST(Selector, SharesFollowWhatIsMeasured) {
  const CacheShape s = CacheShape::uniform(2, {2, 4, 32, 32});
  const Tokens t = fixture::random_tokens(s, 1500, 57, 3.0f);
  const auto mass_of = [&](const std::string& spec) {
    Team team(2);
    CacheOptions o = options_for(6000, spec);
    Cache cache(team, s, o);
    Sequence* sequence = cache.create();
    fixture::feed(cache, sequence, t, 0, 1400, 500);
    decode(cache, sequence, t, 1400, 1460);
    const auto before = cache.selection_figures(*sequence).total();
    decode(cache, sequence, t, 1460, 1500);
    const auto after = cache.selection_figures(*sequence).total();
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
TEST(Selector, TheTailIsTheMeanOfWhatIsNotRead) {
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
    sealed = cache.sealed_tokens(*sequence);
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
TEST(Selector, ACutSequenceForgetsTheValuesThatWent) {
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

TEST(Selector, ATailWantsScoresThatEstimate) {
  for (const char* spec : {"quest:tail=mean", "sink_recent:tail=mean", "all:preselect=4:tail=mean", "max:tail=mean",
                           "spread:tail=mean:token_step=2", "mean:tail=mean:layer_step=2", "spread:tail=more"})
    EXPECT_THROW(parse_select(spec, "test"), Error) << spec;
  Team team(1);
  Cache plain(team, shape(), options_for(kAll, "spread")), tail(team, shape(), options_for(kAll, "spread:tail=mean"));
  EXPECT_THROW(plain.set_selection(plain.create(), "spread:tail=mean"), Error);
  tail.set_selection(tail.create(), "spread:budget=100");
  EXPECT_GT(tail.memory().chunk_bytes, plain.memory().chunk_bytes);
  EXPECT_NE(parse_select("spread:tail=mean", "test").summaries(), parse_select("spread", "test").summaries());
}

// A sequence may have its own choice where the summaries are the cache's.
TEST(Selector, ASequenceMayChooseForItself) {
  Team team(1);
  Cache cache(team, shape(), options_for(4 * kAll, "quest:budget=512"));
  const Tokens t = fixture::random_tokens(shape(), kAll, 41);
  Sequence* s = cache.create();
  fixture::feed(cache, s, t, 0, kPrompt, 500);
  for (const std::string spec : {"all", "quest:budget=768", "sink_recent:budget=256"}) {
    Sequence* fork = cache.fork(*s);
    cache.set_selection(fork, spec);
    const Outputs here = decode(cache, fork, t, kPrompt, kPrompt + 2);
    const Outputs alone = run(spec, 1);
    for (std::size_t l = 0; l < here.size(); ++l)
      EXPECT_EQ(std::memcmp(here[l].data(), alone[l].data(), here[l].size() * sizeof(float)), 0) << spec;
    cache.release(fork);
  }
  for (const char* spec : {"mean", "quest:block=16", "quest:token_step=4", "sink_recent:block=16", "nothing"})
    EXPECT_THROW(cache.set_selection(s, spec), Error) << spec;
}

// A key that one query head wants above all is found wherever it stands, also in a generated block that has left the
// window: all entries but those that do not look at keys.
TEST(Selector, NeedlesAreFound) {
  const CacheShape s = CacheShape::uniform(1, {1, 2, 32, 32});
  constexpr int kTokens = 2600, kGenerated = 1800;
  for (const int needle : {517, 1290, 2050})
    for (const char* spec : {"quest:vote=best", "quest", "max", "spread:block=16", "mean:block=16",
                             "fixed:block=16:anchors=16", "dynamic", "quest:block=128", "quest:heads=shared"}) {
      Tokens t = fixture::random_tokens(s, kTokens, 46, 0.01f);
      for (float& k : t.k[0]) k *= 0.1f;
      for (int c = 0; c < 32; ++c) {
        t.k[0][static_cast<std::size_t>(needle * 32 + c)] = 6.0f;
        t.q[0][static_cast<std::size_t>((kTokens - 1) * 64 + 32 + c)] = 3.0f;  // of the second head
        t.v[0][static_cast<std::size_t>(needle * 32 + c)] = 50.0f;
        // The query that seals the needle's page looks at it, too.
        const int seals = (needle / kPageTokens + 2) * kPageTokens;
        t.q[0][static_cast<std::size_t>(seals * 64 + c)] = 3.0f;
      }
      Team team(1);
      CacheOptions o = options_for(2 * kTokens, std::string(spec) + ":budget=1");
      o.k_codec = o.v_codec = "f16";
      Cache cache(team, s, o);
      Sequence* sequence = cache.create();
      fixture::feed(cache, sequence, t, 0, kGenerated, 500);
      decode(cache, sequence, t, kGenerated, kTokens - 1);
      const Outputs out = decode(cache, sequence, t, kTokens - 1, kTokens);
      for (int c = 0; c < 32; ++c)
        ASSERT_NEAR(out[0][static_cast<std::size_t>(32 + c)], 50.0f, 0.5f) << spec << " at " << needle;
    }
}

// Preselection keeps what the first query looks at, and the younger blocks; pages stay as they were.
TEST(Selector, PreselectionKeepsWhatTheFirstQueryLooksAt) {
  const CacheShape s = CacheShape::uniform(1, {1, 1, 32, 32});
  Tokens t = fixture::random_tokens(s, 1600, 51, 0.01f);
  for (float& k : t.k[0]) k *= 0.1f;
  const auto plant = [&](int token, float value, int channel) {
    t.k[0][static_cast<std::size_t>(token * 32 + channel)] = 20.0f;
    for (int c = 0; c < 32; ++c) t.v[0][static_cast<std::size_t>(token * 32 + c)] = value;
  };
  const auto look = [&](int token, int channel) { t.q[0][static_cast<std::size_t>(token * 32 + channel)] = 9.0f; };
  plant(400, 30, 1);
  plant(900, 70, 2);
  look(1500, 1);  // the first generated token
  look(1501, 2);
  look(1502, 1);
  Team team(1);
  CacheOptions o = options_for(3200, "quest:budget=512:preselect=1:local=64");
  o.k_codec = o.v_codec = "f16";
  Cache cache(team, s, o);
  Sequence* sequence = cache.create();
  fixture::feed(cache, sequence, t, 0, 1500, 500);
  const auto before = cache.digest(*sequence);
  Sequence* copy = cache.fork(*sequence);
  const Outputs out = decode(cache, sequence, t, 1500, 1503);
  EXPECT_NEAR(out[0][0], 30, 0.5);
  EXPECT_LT(std::abs(out[0][32]), 5);  // not kept
  EXPECT_NEAR(out[0][64], 30, 0.5);
  EXPECT_EQ(cache.digest(*copy), before);
}

// Shared lists are as good as the sum of the heads allows; separate ones serve heads that disagree.
TEST(Selector, HeadsThatDisagreeChooseForThemselves) {
  const CacheShape s = CacheShape::uniform(1, {2, 2, 32, 32});
  Tokens t = fixture::random_tokens(s, 1000, 52, 0.01f);
  for (float& k : t.k[0]) k *= 0.1f;
  for (const int head : {0, 1}) {
    const int needle = head == 0 ? 300 : 600;
    for (int c = 0; c < 32; ++c) {
      t.k[0][static_cast<std::size_t>((needle * 2 + head) * 32 + c)] = 6.0f;
      t.v[0][static_cast<std::size_t>((needle * 2 + head) * 32 + c)] = 50.0f;
      t.q[0][static_cast<std::size_t>((999 * 2 + head) * 32 + c)] = 3.0f;
    }
  }
  const auto answer = [&](const std::string& spec) {
    Team team(1);
    CacheOptions o = options_for(2000, spec);
    o.k_codec = o.v_codec = "f16";
    Cache cache(team, s, o);
    Sequence* sequence = cache.create();
    fixture::feed(cache, sequence, t, 0, 999, 500);
    const Outputs out = decode(cache, sequence, t, 999, 1000);
    return std::pair{out[0][0], out[0][32]};
  };
  const auto [a, b] = answer("quest:budget=1");
  EXPECT_NEAR(a, 50, 0.5);
  EXPECT_NEAR(b, 50, 0.5);
  const auto [c, d] = answer("quest:budget=1:heads=shared");
  EXPECT_EQ((std::abs(c - 50) < 0.5) + (std::abs(d - 50) < 0.5), 1);
}

}  // namespace
}  // namespace kvasir::kv
