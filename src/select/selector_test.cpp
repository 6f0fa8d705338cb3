// Selectors in a cache: what becomes of a choice, whatever the threads, steps, forks, cuts and restarts; every entry.
#include "select/selector.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "kv/page.hpp"
#include "select/selector_fixture.hpp"
#include "simd/bf16_products.hpp"
#include "simd/isa_fixture.hpp"

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
        // blocks that share runs, and votes of the prompt's last tokens
        "quest:budget=512:block=8", "spread:budget=512:block=8:tail=mean", "keys:budget=300:block=8:local=64:meter=4",
        "keys:budget=300:block=1:local=64:meter=4", "keys:budget=300:block=1:heads=shared:token_step=5",
        "snapkv:budget=300:block=1:local=64:meter=16", "snapkv_window:budget=300:block=1:local=64:pool=5",
        "snapkv_window:budget=512:block=16:window=128", "quest:budget=512:block=8:preselect=12:window=5:heads=shared",
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
  for (const char* spec :
       {"all:preselect=1000:budget=512:block=16", "quest:preselect=1000:budget=99%:block=16:p=1",
        "all:preselect=10000:budget=512:block=1:window=20", "keys:preselect=1000:budget=99%:block=8:p=1"}) {
    Team team(2);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
    const Tokens t = fixture::random_tokens(shape(), kAll, 41);
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    Outputs first = decode(cache, s, t, kPrompt, kPrompt + 1);
    for (std::size_t l = 0; l < first.size(); ++l)
      EXPECT_EQ(std::memcmp(first[l].data(), dense[l].data(), first[l].size() * sizeof(float)), 0) << spec;
    EXPECT_EQ(Rules::exact_tokens(*s), kPrompt + 1) << spec;
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
    EXPECT_EQ(Rules::exact_tokens(*s), kPrompt);
    const Outputs first = decode(cache, s, t, kPrompt, kPrompt + 3);
    EXPECT_LT(Rules::exact_tokens(*s), kPrompt + 3) << spec;
    Sequence* fork = cache.fork(*s);
    EXPECT_EQ(Rules::exact_tokens(*fork), Rules::exact_tokens(*s));
    expect_same_bits(decode(cache, fork, t, kPrompt + 3, kPrompt + 8), decode(cache, s, t, kPrompt + 3, kPrompt + 8),
                     spec + " forked");
    cache.truncate(fork, kPrompt);
    EXPECT_EQ(Rules::exact_tokens(*fork), kPrompt);
    expect_same_bits(decode(cache, fork, t, kPrompt, kPrompt + 3), first, spec + " cut");
    cache.truncate(fork, kPrompt - 5);
    EXPECT_EQ(Rules::exact_tokens(*fork), kPrompt - 5);
  }
}

TEST(Selector, RestoredPagesBringTheirSummaries) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 44);
  for (const std::string& spec : small_choices()) {
    if (spec.find("window") != std::string::npos) continue;  // queries are not restored: TheQuestionVotesForItsAnswer
    Team team(1);
    Cache cache(team, shape(), options_for(4 * kAll, spec));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, kPrompt, 500);
    std::vector<std::byte> tail(cache.rules().tail_bytes(kPrompt));
    cache.bytes().save_tail(*s, kPrompt, tail);
    Sequence* restored = cache.bytes().restore(kPrompt, tail);
    for (std::int64_t i = 0; i < cache.rules().sealed_pages(kPrompt); ++i) {
      std::vector<std::byte> page;
      for (const auto piece : cache.bytes().sealed_page(*s, i)) page.insert(page.end(), piece.begin(), piece.end());
      ASSERT_EQ(page.size(), cache.memory().chunk_bytes);
      cache.bytes().fill_page(*restored, i, page);
    }
    expect_same_bits(decode(cache, restored, t, kPrompt, kPrompt + 20), decode(cache, s, t, kPrompt, kPrompt + 20),
                     spec);
  }
}

// A sequence may have its own choice where the summaries are the cache's.
TEST(Selector, ASequenceMayChooseForItself) {
  Team team(1);
  Cache cache(team, shape(), options_for(4 * kAll, "quest:budget=512"));
  const Tokens t = fixture::random_tokens(shape(), kAll, 41);
  Sequence* s = cache.create();
  fixture::feed(cache, s, t, 0, kPrompt, 500);
  for (const std::string spec : {"all", "quest:budget=768", "sink_recent:budget=256",
                                 "sink_recent:block=128:budget=256", "keys:budget=768", "keys:block=128:budget=768"}) {
    Sequence* fork = cache.fork(*s);
    cache.set_selection(fork, read_selector(spec, "test"));
    const Outputs here = decode(cache, fork, t, kPrompt, kPrompt + 2);
    const Outputs alone = run(spec, 1);
    for (std::size_t l = 0; l < here.size(); ++l)
      EXPECT_EQ(std::memcmp(here[l].data(), alone[l].data(), here[l].size() * sizeof(float)), 0) << spec;
    cache.release(fork);
  }
  // Whatever its blocks, a sequence keeps choices and measurements only where the cache has room for them.
  for (const char* spec : {"mean", "quest:block=16", "quest:token_step=4", "sink_recent:block=16", "nothing",
                           "keys:token_step=2", "keys:block=128:token_step=2", "snapkv:block=128",
                           "keys:block=128:layer_step=2", "keys:block=128:prompt=16", "keys:block=128:p=0.9:aim=0.95"})
    EXPECT_THROW(cache.set_selection(s, read_selector(spec, "test")), Error) << spec;
}

// A key that one query head wants above all is found wherever it stands, also in a generated block that has left the
// window: all entries but those that do not look at keys.
TEST(Selector, NeedlesAreFound) {
  const CacheShape s = CacheShape::uniform(1, {1, 2, 32, 32});
  constexpr int kTokens = 2600, kGenerated = 1800;
  for (const int needle : {517, 1290, 2050})
    for (const char* spec : {"quest:vote=best", "quest", "max", "keys", "spread:block=16", "mean:block=16",
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
  const auto before = cache.bytes().digest(*sequence);
  Sequence* copy = cache.fork(*sequence);
  const Outputs out = decode(cache, sequence, t, 1500, 1503);
  EXPECT_NEAR(out[0][0], 30, 0.5);
  EXPECT_LT(std::abs(out[0][32]), 5);  // not kept
  EXPECT_NEAR(out[0][64], 30, 0.5);
  EXPECT_EQ(cache.bytes().digest(*copy), before);
}

// The prompt's last tokens vote, by what each of them sees: not the answer's first token, and not earlier ones. Of a
// prompt whose end was not computed here there are no queries, and the answer's first token votes.
TEST(Selector, TheQuestionVotesForItsAnswer) {
  const CacheShape s = CacheShape::uniform(1, {1, 1, 32, 32});
  constexpr int kEnd = 1500;
  Tokens t = fixture::random_tokens(s, kEnd + 10, 53, 0.01f);
  for (float& k : t.k[0]) k *= 0.1f;
  const auto plant = [&](int token, float value, int channel) {
    t.k[0][static_cast<std::size_t>(token * 32 + channel)] = 20.0f;
    for (int c = 0; c < 32; ++c) t.v[0][static_cast<std::size_t>(token * 32 + c)] = value;
  };
  const auto look = [&](int token, int channel) { t.q[0][static_cast<std::size_t>(token * 32 + channel)] = 9.0f; };
  plant(300, 10, 0);
  plant(400, 30, 1);
  plant(900, 70, 2);
  look(kEnd - 9, 0);  // outside of the window
  look(kEnd - 8, 1);
  look(kEnd, 2);  // the first generated token
  for (const int i : {1, 2, 3}) look(kEnd + i, i == 1 ? 0 : i == 2 ? 1 : 2);
  const auto answer = [&](const std::string& spec, int chunk, int computed_from) {
    Team team(2);
    CacheOptions o = options_for(4 * kEnd, spec + ":local=64:budget=512:preselect=1");
    o.k_codec = o.v_codec = "f16";
    Cache cache(team, s, o);
    Sequence* sequence = cache.create();
    fixture::feed(cache, sequence, t, 0, kEnd - computed_from, chunk);
    std::vector<std::byte> tail(cache.rules().tail_bytes(kEnd - computed_from));
    cache.bytes().save_tail(*sequence, kEnd - computed_from, tail);
    Sequence* restored = cache.bytes().restore(kEnd - computed_from, tail);
    for (std::int64_t i = 0; i < cache.rules().sealed_pages(kEnd - computed_from); ++i) {
      std::vector<std::byte> page;
      for (const auto piece : cache.bytes().sealed_page(*sequence, i))
        page.insert(page.end(), piece.begin(), piece.end());
      cache.bytes().fill_page(*restored, i, page);
    }
    if (computed_from > 0) fixture::feed(cache, restored, t, kEnd - computed_from, kEnd, chunk);
    const Outputs out = decode(cache, restored, t, kEnd, kEnd + 4);
    EXPECT_EQ(cache.rules().exact_prompt(nullptr, kEnd), spec.find("window") == std::string::npos ? kEnd : kEnd - 8)
        << spec;
    return std::vector<float>{out[0][32], out[0][64], out[0][96]};  // what channels 0, 1 and 2 find
  };
  for (const char* name :
       {"all:window=8", "all:window=8:block=1:pool=0", "keys:window=8:block=8:pool=0", "quest:window=8"})
    for (const int chunk : {500, 7, 1}) {
      const std::vector<float> got = answer(name, chunk, 100);
      EXPECT_LT(std::abs(got[0]), 5) << name << " " << chunk;
      EXPECT_NEAR(got[1], 30, 0.5) << name << " " << chunk;
      EXPECT_LT(std::abs(got[2]), 5) << name << " " << chunk;
    }
  for (const auto& [name, computed] : {std::pair{"all:block=16", 100}, {"all:window=8:block=16", 0}}) {
    const std::vector<float> got = answer(name, 500, computed);
    EXPECT_LT(std::abs(got[1]), 5) << name;
    EXPECT_NEAR(got[2], 70, 0.5) << name;
  }
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
}  // namespace kvasir::select
