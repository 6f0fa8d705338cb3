// Prompts that read choices of blocks: what is chosen depends on positions and tokens, never on steps.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.hpp"
#include "kv/outputs_fixture.hpp"
#include "kv/page.hpp"
#include "select/spec.hpp"

namespace kvasir::select {
namespace select_prompt_test {

using namespace kv;

using fixture::append;
using fixture::decode;
using fixture::expect_same_bits;
using fixture::Outputs;
using fixture::Tokens;

CacheShape shape() {
  CacheShape s = CacheShape::uniform(3, {2, 6, 32, 32});
  s.layers[1].window = 200;  // is not asked about
  return s;
}

constexpr int kPrompt = 1490;  // ends within the positions of a choice
constexpr int kAll = kPrompt + 12;

CacheOptions options_for(const std::string& selector, const std::string& codec = "rq4") {
  CacheOptions o;
  o.k_codec = o.v_codec = codec;
  o.selector = read_selector(selector, "test");
  o.max_tokens = 4 * kAll;
  o.max_sequences = 4;
  return o;
}

const std::vector<std::string> kSpecs{"quest:budget=512:prompt=16",
                                      "quest:budget=512:prompt=1:meter=16",
                                      "quest:budget=144:block=16:local=32:initial=16:prompt=16",
                                      "spread:budget=512:block=16:prompt=32:heads=shared",
                                      "quest:budget=512:prompt=1:layer_step=2",
                                      "quest:budget=512:prompt=16:layer_step=2:token_step=3",
                                      "mean:budget=30%:block=16:prompt=128:meter=16:floor=0.7",
                                      "quest:budget=384:block=32:prompt=16:meter=16:floor=0.72",
                                      "sink_recent:budget=384:prompt=64:meter=64",
                                      "dynamic:anchors=2:budget=512:prompt=8:dense_layers=1",
                                      "spread:budget=1024:p=0.6:block=32:prompt=16:tail=mean",
                                      "quest:budget=512:prompt=16:preselect=12",
                                      "keys:budget=384:block=16:prompt=16:meter=16"};

struct Ran {
  Outputs outs;  // of the prompt and some generated tokens
  std::uint64_t digest;
  std::int64_t exact;
  SelectionStats stats;
};

Ran run(const std::string& selector, int threads, int chunk, const std::string& codec = "rq4") {
  Team team(threads);
  Cache cache(team, shape(), options_for(selector, codec));
  const Tokens t = fixture::random_tokens(shape(), kAll, 61);
  Sequence* s = cache.create();
  Ran r{fixture::feed(cache, s, t, 0, kPrompt, chunk), 0, 0, {}};
  append(&r.outs, decode(cache, s, t, kPrompt, kAll));
  r.digest = cache.bytes().digest(*s);
  r.exact = Rules::exact_tokens(*s);
  r.stats = cache.stats(*s).selection;
  cache.check_integrity();
  return r;
}

TEST(SelectPrompt, ThreadsAndChunksNeverShow) {
  for (const std::string& spec : kSpecs) {
    const Ran one = run(spec, 1, 500);
    EXPECT_GT(one.stats.prompt_total().chosen, 0) << spec;
    EXPECT_LT(one.stats.prompt_total().read, one.stats.prompt_total().seen) << spec;
    for (const int chunk : {37, 128, 1490}) {
      const Ran other = run(spec, chunk == 37 ? 3 : 2, chunk);
      expect_same_bits(other.outs, one.outs, spec + " in chunks of " + std::to_string(chunk));
      EXPECT_EQ(other.digest, one.digest) << spec;
      EXPECT_EQ(other.exact, one.exact) << spec;
      const auto a = one.stats.prompt_total(), b = other.stats.prompt_total();
      EXPECT_EQ(a.chosen, b.chosen) << spec;
      EXPECT_EQ(a.measured, b.measured) << spec;
      EXPECT_DOUBLE_EQ(a.mass, b.mass) << spec;
      EXPECT_DOUBLE_EQ(a.read, b.read) << spec;
      EXPECT_DOUBLE_EQ(a.seen, b.seen) << spec;
      EXPECT_EQ(a.dense, b.dense) << spec;
    }
  }
}

// Codecs whose prompts go through tiles of floats.
TEST(SelectPrompt, ChunksNeverShowWithAnyCodec) {
  for (const char* codec : {"f16", "polar4", "turbo4", "int4_token"}) {
    const Ran one = run(kSpecs[0], 2, 500, codec);
    const Ran other = run(kSpecs[0], 1, 61, codec);
    expect_same_bits(other.outs, one.outs, codec);
    EXPECT_LT(one.stats.prompt_total().read, one.stats.prompt_total().seen) << codec;
  }
}

TEST(SelectPrompt, FloorsWereMet) {  // else the specs with a floor would test nothing
  for (const std::string& spec : kSpecs) {
    if (spec.find("floor") == std::string::npos) continue;
    const auto t = run(spec, 1, 500).stats.prompt_total();
    EXPECT_GT(t.dense, 0) << spec;
    EXPECT_LT(t.dense, t.measured) << spec;
  }
}

TEST(SelectPrompt, ABudgetOfEverythingHasTheBitsOfAll) {
  const Ran dense = run("all", 2, 500);
  for (const char* spec : {"quest:budget=100000:prompt=16", "spread:budget=100%:prompt=128:tail=mean"}) {
    const Ran whole = run(spec, 2, 500);
    expect_same_bits(whole.outs, dense.outs, spec);
    EXPECT_EQ(whole.exact, kAll);
  }
}

// With a choice for every position a prompt reads what generated tokens read.
TEST(SelectPrompt, SingleChoicesAreThoseOfGeneratedTokens) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 61);
  const std::string spec = "quest:budget=512:prompt=1:block=32";
  Team team(2);
  Cache cache(team, shape(), options_for(spec));
  Sequence* a = cache.create();
  const Outputs prompt = fixture::feed(cache, a, t, 0, 1200, 500);
  Sequence* b = cache.create();
  expect_same_bits(decode(cache, b, t, 0, 1200), prompt, spec);
}

TEST(SelectPrompt, OtherSequencesNeverShow) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 61), other = fixture::random_tokens(shape(), kAll, 62);
  for (const std::string& spec : kSpecs) {
    const Ran alone = run(spec, 1, 500);
    Team team(2);
    Cache cache(team, shape(), options_for(spec));
    Sequence* a = cache.create();
    Sequence* b = cache.create();
    fixture::feed(cache, b, other, 0, 900, 500);
    Outputs outs;
    for (int at = 0, i = 0; at < kPrompt; at += 100, ++i) {
      const int count = std::min(100, kPrompt - at);
      append(&outs, fixture::step(cache, {{b, &other, 900 + i, 1, i % 2 == 0}, {a, &t, at, count}})[1]);
    }
    append(&outs, decode(cache, a, t, kPrompt, kAll));
    expect_same_bits(outs, alone.outs, spec);
    EXPECT_EQ(cache.bytes().digest(*a), alone.digest) << spec;
  }
}

// Within the positions of a choice, too.
TEST(SelectPrompt, ForksAndCutsGoOnAsIfNothingHadBeen) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 61), other = fixture::random_tokens(shape(), kAll, 63);
  for (const std::string& spec : kSpecs) {
    const Ran straight = run(spec, 1, 500);
    Team team(2);
    Cache cache(team, shape(), options_for(spec));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, 1419, 500);
    Sequence* fork = cache.fork(*s);
    fixture::feed(cache, fork, other, 1419, 1450, 31);
    cache.truncate(fork, 1419);
    for (Sequence* x : {fork, s}) {
      fixture::feed(cache, x, t, 1419, kPrompt, 25);
      decode(cache, x, t, kPrompt, kAll);
      EXPECT_EQ(cache.bytes().digest(*x), straight.digest) << spec;
      EXPECT_EQ(Rules::exact_tokens(*x), straight.exact) << spec;
    }
    cache.check_integrity();
  }
}

// What is restored is exact; the prompt goes on with choices from there.
TEST(SelectPrompt, RestoredSequencesGoOnAsThoseThatWereComputed) {
  const Tokens t = fixture::random_tokens(shape(), kAll, 61);
  constexpr int kKnown = 1101;
  for (const std::string& spec : kSpecs) {
    Team team(2);
    Cache cache(team, shape(), options_for(spec));
    Sequence* s = cache.create();
    cache.set_selection(s, read_selector("all", "test"));
    fixture::feed(cache, s, t, 0, kKnown, 500);
    EXPECT_EQ(Rules::exact_tokens(*s), kKnown);
    std::vector<std::byte> tail(cache.rules().tail_bytes(kKnown));
    cache.bytes().save_tail(*s, kKnown, tail);
    Sequence* restored = cache.bytes().restore(kKnown, tail);
    for (std::int64_t i = 0; i < cache.rules().sealed_pages(kKnown); ++i) {
      std::vector<std::byte> page;
      for (const auto piece : cache.bytes().sealed_page(*s, i)) page.insert(page.end(), piece.begin(), piece.end());
      cache.bytes().fill_page(*restored, i, page);
    }
    Outputs outs[2];
    for (Sequence* x : {s, restored}) {
      cache.set_selection(x, read_selector(spec, "test"));
      Outputs& out = outs[x == restored];
      out = fixture::feed(cache, x, t, kKnown, kPrompt, x == s ? 300 : 47);
      append(&out, decode(cache, x, t, kPrompt, kAll));
      EXPECT_LT(Rules::exact_tokens(*x), kPrompt);
    }
    expect_same_bits(outs[1], outs[0], spec);
  }
}

// Only what comes out as in any other sequence may be shared, and how long that is, is known beforehand.
TEST(SelectPrompt, WhatChoicesHadAHandInIsMarked) {
  Team team(1);
  for (const std::string& spec : kSpecs) {
    Cache cache(team, shape(), options_for(spec));
    const std::int64_t exact = cache.rules().exact_prompt(nullptr, kPrompt);
    EXPECT_GE(exact, 256) << spec;
    EXPECT_LE(exact, run(spec, 1, 500).exact) << spec;
    EXPECT_LT(run(spec, 1, 500).exact, kPrompt) << spec;
    EXPECT_EQ(cache.rules().exact_prompt(read_selector("all", "test").get(), kPrompt), kPrompt) << spec;
    EXPECT_EQ(cache.rules().exact_prompt(nullptr, 200), 200) << spec;
    // Other sequences compute the same first tokens.
    const Tokens t = fixture::random_tokens(shape(), kAll, 61);
    Sequence* a = cache.create();
    Sequence* b = cache.create();
    cache.set_selection(b, read_selector("all", "test"));
    const auto n = static_cast<int>(exact);
    expect_same_bits(fixture::feed(cache, a, t, 0, n, 200), fixture::feed(cache, b, t, 0, n, 200), spec);
    EXPECT_EQ(cache.bytes().digest(*a), cache.bytes().digest(*b)) << spec;
  }
}

TEST(SelectPrompt, BadStepsAreRefused) {
  for (const char* spec : {"quest:prompt=3", "quest:prompt=256", "quest:prompt=-1", "quest:prompt="})
    EXPECT_THROW(parse_select(spec, "test"), Error) << spec;
  Team team(1);
  Cache cache(team, shape(), options_for("quest"));
  Sequence* s = cache.create();
  EXPECT_THROW(cache.set_selection(s, read_selector("quest:prompt=16", "test")), Error);
  cache.set_selection(s, read_selector("quest:prompt=1", "test"));  // keeps nothing
  EXPECT_TRUE(cache.rules().can_draft());
  EXPECT_TRUE(Cache(team, shape(), options_for("quest:prompt=16")).rules().can_draft());
}

}  // namespace select_prompt_test
}  // namespace kvasir::select
