// Rows of an index beside keys: which tokens are chosen, that nothing but the tokens says so, and that the rows go with
// their pages through all that a sequence can go through.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "base/error.hpp"
#include "kv/device_fixture.hpp"
#include "kv/life_fixture.hpp"
#include "select/spec.hpp"

namespace kvasir::kv {
namespace chooser_test {

using namespace fixture;

// Layers 0 and 1 share a choice, 2 has its own, 3 sees everything.
CacheShape indexed(int top = 20, int top_of_second = 200) {
  CacheShape s =
      CacheShape::uniform(4, {.kv_heads = 1, .query_heads = 4, .head_dim = 48, .head_dim_v = 32, .latent = true});
  s.indexes = {{.heads = 4, .dim = 16, .top = top}, {.heads = 3, .dim = 24, .top = top_of_second}};
  s.layers[0].chosen_by = s.layers[1].chosen_by = 0;
  s.layers[2].chosen_by = 1;
  return s;
}

// The same of heads with keys of their own, which see blocks.
CacheShape blocks() {
  CacheShape s = CacheShape::uniform(3, {.kv_heads = 2, .query_heads = 4, .head_dim = 32, .head_dim_v = 16});
  s.indexes = {{.heads = 4, .dim = 16, .top = 40, .block = 4}, {.heads = 3, .dim = 24, .top = 192, .block = 16}};
  s.layers[0].chosen_by = 0;
  s.layers[1].chosen_by = 1;
  return s;
}

CacheOptions options(const std::string& codec, int sinks = 4, int window = 128) {
  return {.k_codec = codec,
          .v_codec = codec,
          .window = window,
          .sinks = sinks,
          .max_tokens = 4096,
          .max_sequences = 4,
          .device = suite_device()};
}

TEST(Chooser, AgreesWithDouble) {
  Team team(3);
  for (const char* codec : {"f32", "f16"})
    for (const auto& [shape, sinks] : {std::pair(indexed(), 0), {indexed(), 17}, {blocks(), 0}, {blocks(), 17}}) {
      const Tokens t = random_tokens(shape, 400, 3);
      Cache cache(team, shape, options(codec, sinks));
      const Outputs outs = feed(cache, cache.create(), t, 0, t.n, 199);
      for (int l = 0; l < shape.count(); ++l)
        EXPECT_LE(error_against_double(shape, t, outs[static_cast<std::size_t>(l)], codec, l), 2e-6)
            << codec << ", " << sinks << " sinks, layer " << l;
    }
}

class ChooserOf : public ::testing::TestWithParam<CacheShape (*)()> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ChooserOf, ::testing::Values([] { return indexed(); }, [] { return blocks(); }));

TEST_P(ChooserOf, StepsAndThreadsAndNeighboursShowInNoBit) {
  const CacheShape shape = GetParam()();
  const Tokens t = random_tokens(shape, 322, 5), other = random_tokens(shape, 322, 6);
  for (const char* codec : {"f16", "rq4"})
    for (const int window : {0, 128}) {
      Team one(1), three(3);
      Cache cache(one, shape, options(codec, 4, window)), same(three, shape, options(codec, 4, window));
      Sequence* const s = cache.create();
      const Outputs want = feed(cache, s, t, 0, t.n, t.n);
      for (const int chunk : {3, 300}) {
        Sequence* const other_steps = same.create();
        expect_same_bits(feed(same, other_steps, t, 0, t.n, chunk), want, codec + (" in " + std::to_string(chunk)));
        EXPECT_EQ(same.bytes().digest(*other_steps), cache.bytes().digest(*s));
        same.release(other_steps);
      }
      Sequence *const a = same.create(), *const b = same.create();
      Outputs together;
      for (int at = 0; at < t.n; at += 46) {
        const auto outs = step(same, {{b, &other, at, 46}, {a, &t, at, 46}});
        append(&together, outs[1]);
      }
      expect_same_bits(together, want, codec + std::string(" beside another"));
    }
}

// Every other token is one of `odd`.
Tokens mix(const CacheShape& shape, Tokens t, const Tokens& odd) {
  const auto take = [&](std::vector<float>& to, const std::vector<float>& from) {
    const std::size_t row = to.size() / static_cast<std::size_t>(t.n);
    for (std::size_t i = row; i < to.size(); i += 2 * row)
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i), row, to.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (std::size_t l = 0; l < shape.layers.size(); ++l)
    take(t.q[l], odd.q[l]), take(t.k[l], odd.k[l]), take(t.v[l], odd.v[l]);
  for (std::size_t x = 0; x < shape.indexes.size(); ++x) {
    take(t.index_q[x], odd.index_q[x]), take(t.index_k[x], odd.index_k[x]);
    take(t.index_weights[x], odd.index_weights[x]);
  }
  return t;
}

// A generated token has the bits of a prompt's with lossless codecs, and drafted ones those that they have alone.
TEST_P(ChooserOf, GeneratedAndDraftedTokensChooseAsPromptsDo) {
  Team team(2);
  const CacheShape shape = GetParam()();
  const Tokens t = random_tokens(shape, 400, 5), mixed = mix(shape, t, random_tokens(shape, 400, 9));
  for (const char* codec : {"f32", "rq4"}) {
    CacheOptions o = options(codec);
    o.drafts = true;
    Cache cache(team, shape, o);
    Sequence *const s = cache.create(), *const drafts = cache.create(), *const prompt = cache.create();
    feed(cache, s, t, 0, 250, 250);
    feed(cache, drafts, t, 0, 250, 100);
    const Outputs want = decode(cache, s, t, 250, t.n);
    const Outputs whole = feed(cache, prompt, t, 0, t.n, t.n);
    Outputs last;
    for (std::size_t l = 0; l < whole.size(); ++l)
      last.emplace_back(whole[l].end() - static_cast<std::ptrdiff_t>(want[l].size()), whole[l].end());
    expect_same_bits(want, last, codec);
    Outputs got;
    for (int at = 250; at < t.n;) {  // pairs whose second token is taken back
      const bool pair = at % 2 == 0 && cache.rules().draft_room(*drafts) >= 1;
      const auto outs = step(cache, {{drafts, pair ? &mixed : &t, at, pair ? 2 : 1, true}})[0];
      ++at;
      if (pair) cache.truncate(drafts, at);
      got.resize(outs.size());
      for (std::size_t l = 0; l < outs.size(); ++l)
        got[l].insert(
            got[l].end(), outs[l].begin(),
            outs[l].begin() + shape.at(static_cast<int>(l)).query_heads * shape.at(static_cast<int>(l)).head_dim_v);
    }
    expect_same_bits(got, want, codec + std::string(" drafted"));
    EXPECT_EQ(cache.bytes().digest(*drafts), cache.bytes().digest(*s));
  }
}

// Up to as many tokens as are chosen all are seen, and rows are written: a longer text is the same with and without a
// beginning that chose nothing.
TEST(Chooser, ShortTextsSeeEverything) {
  Team team(2);
  CacheShape wide = blocks();
  wide.indexes[0].top = wide.indexes[1].top = 592;  // and 15 tokens behind them, which fill no block
  for (CacheShape shape : {indexed(1000, 1000), wide}) {
    CacheShape plain = shape;
    plain.indexes.clear();
    for (LayerShape& l : plain.layers) l.chosen_by = -1;
    const Tokens t = random_tokens(shape, 595, 5);
    Cache cache(team, shape, options("rq4")), dense(team, plain, options("rq4"));
    expect_same_bits(feed(cache, cache.create(), t, 0, t.n, 100), feed(dense, dense.create(), t, 0, t.n, 100), "dense");
  }
}

TEST(Chooser, RowsGoThroughLifeWithTheirPages) {
  const CacheShape shape = indexed(60, 500);
  const std::string folder = testing::TempDir() + "/index-pages-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  for (const char* codec : {"f16", "rq4"}) {
    Team one(1), three(3);
    CacheOptions o = options(codec), on_disk = o;
    on_disk.disk = folder;
    on_disk.disk_memory = 4 << 20;
    on_disk.device = nullptr;
    Cache memory(one, shape, o), disk(three, shape, on_disk);
    expect_same_bits(live(disk, 900, 61), live(memory, 900, 500), codec);
  }
  std::filesystem::remove_all(folder);
}

TEST_P(ChooserOf, RestoredAndCutSequencesGoOn) {
  Team team(2);
  const CacheShape shape = GetParam()();
  const Tokens t = random_tokens(shape, 700, 5), other = random_tokens(shape, 700, 6);
  for (const char* codec : {"f16", "rq4"})
    for (const int n : {3, 20, 21, 128, 290}) {
      Cache cache(team, shape, options(codec)), there(team, shape, options(codec));
      Sequence* const s = cache.create();
      feed(cache, s, t, 0, n, 77);
      feed(there, there.create(), other, 0, 400, 100);  // so that slots differ
      std::vector<std::byte> tail(cache.rules().tail_bytes(n));
      cache.bytes().save_tail(*s, n, tail);
      Sequence* const restored = there.bytes().restore(n, tail);
      for (std::int64_t i = 0; i < cache.rules().sealed_pages(n); ++i) {
        std::vector<std::byte> page;
        for (const auto piece : cache.bytes().sealed_page(*s, i)) page.insert(page.end(), piece.begin(), piece.end());
        EXPECT_EQ(page.size(), cache.memory().chunk_bytes);
        there.bytes().fill_page(*restored, i, page);
      }
      Sequence* const fork = cache.fork(*s);
      feed(cache, fork, other, n, n + 20, 20);
      if (cache.rules().can_truncate(*fork, n)) {
        cache.truncate(fork, n);
        EXPECT_EQ(cache.bytes().digest(*fork), cache.bytes().digest(*s));
      }
      const Outputs want = feed(cache, s, t, n, n + 150, 31);
      expect_same_bits(feed(there, restored, t, n, n + 150, 150), want, codec + (" restored " + std::to_string(n)));
      if (Cache::length(*fork) == n)
        expect_same_bits(feed(cache, fork, t, n, n + 150, 19), want, codec + (" cut to " + std::to_string(n)));
      there.check_integrity();
      cache.check_integrity();
    }
}

// Of equal scores the earlier tokens are taken, and scores that are no numbers count least.
TEST(Chooser, EqualScoresGoToEarlierTokens) {
  Team team(2);
  CacheShape shape =
      CacheShape::uniform(1, {.kv_heads = 1, .query_heads = 1, .head_dim = 8, .head_dim_v = 8, .latent = true});
  shape.layers[0].chosen_by = 0;
  for (const int block : {1, 2}) {
    shape.indexes = {{.heads = 1, .dim = 8, .top = 10, .block = block}};
    Tokens t = random_tokens(shape, 300, 5);
    std::fill(t.index_k[0].begin(), t.index_k[0].end(), 1.0f);
    std::fill(t.index_q[0].begin(), t.index_q[0].end(), -1.0f);  // all scores are 0
    Cache cache(team, shape, options("f32"));
    EXPECT_LE(error_against_double(shape, t, feed(cache, cache.create(), t, 0, t.n, 90)[0], "f32", 0), 2e-6) << block;
    std::fill_n(t.index_weights[0].begin(), t.index_weights[0].size(), 1.0f);
    for (int i = 0; i < 300; i += 3)
      std::fill_n(t.index_k[0].begin() + 8 * i, 8, std::numeric_limits<float>::quiet_NaN());
    feed(cache, cache.create(), t, 0, t.n, 90);
    cache.check_integrity();
  }
}

// Weights that are all 1 need not be handed over.
TEST(Chooser, WeightsMayBeLeftOut) {
  Team team(2);
  CacheShape shape = CacheShape::uniform(1, {.kv_heads = 2, .query_heads = 4, .head_dim = 16, .head_dim_v = 16});
  shape.indexes = {{.heads = 3, .dim = 8, .top = 32, .block = 4}};
  shape.layers[0].chosen_by = 0;
  const Tokens t = random_tokens(shape, 200, 7);
  const std::vector<float> ones(600, 1.0f);
  std::vector<float> out[2];
  for (const bool given : {false, true}) {
    Cache cache(team, shape, options("f32"));
    const Slice slice{cache.create(), 0, t.n, false};
    out[given].resize(200 * 4 * 16);
    cache.begin({&slice, 1});
    cache.choose(0, t.index_q[0].data(), t.index_k[0].data(), given ? ones.data() : nullptr);
    cache.attend(0, t.q[0].data(), t.k[0].data(), t.v[0].data(), out[given].data(), {.scale = 0.25f});
    cache.commit();
  }
  EXPECT_EQ(out[0], out[1]);
}

TEST(Chooser, BytesAreCountedAndWhatCannotBeIsRefused) {
  Team team(1);
  const CacheShape shape = indexed();
  CacheShape plain = shape;
  plain.indexes.clear();
  for (LayerShape& l : plain.layers) l.chosen_by = -1;
  EXPECT_EQ(plan_memory(shape, options("rq4"), 1).chunk_bytes - plan_memory(plain, options("rq4"), 1).chunk_bytes,
            std::size_t{128 * 2 * (16 + 24)});  // f16, as raw keys are
  EXPECT_EQ(plan_memory(shape, options("f32"), 1).chunk_bytes - plan_memory(plain, options("f32"), 1).chunk_bytes,
            std::size_t{128 * 4 * (16 + 24)});
  EXPECT_EQ(plan_memory(shape, options("rq4"), 1).k_bits, plan_memory(plain, options("rq4"), 1).k_bits);

  CacheOptions o = options("f16");
  o.selector = select::read_selector("quest:budget=512", "test");
  EXPECT_THROW(plan_memory(shape, o, 1), Error);
  Cache cache(team, shape, options("f16"));
  Sequence* const s = cache.create();
  EXPECT_THROW(cache.set_selection(s, select::read_selector("sink_recent:budget=256", "test")), Error);
  cache.set_selection(s, select::read_selector("all", "test"));
  EXPECT_EQ(cache.shape().count(), 4);

  CacheShape bad = shape;
  bad.layers[3].chosen_by = 2;
  EXPECT_THROW(plan_memory(bad, options("f16"), 1), Error);
  bad = shape;
  bad.layers[2].window = 64;
  EXPECT_THROW(plan_memory(bad, options("f16"), 1), Error);
  bad = shape;
  bad.layers[2].chosen_by = -1;
  EXPECT_THROW(plan_memory(bad, options("f16"), 1), Error);
  bad = shape;
  bad.indexes[0].dim = 12;
  EXPECT_THROW(plan_memory(bad, options("f16"), 1), Error);
  for (const int block : {0, 3, 8, 256}) {  // 20 tokens are chosen
    bad = shape;
    bad.indexes[0].block = block;
    EXPECT_THROW(plan_memory(bad, options("f16"), 1), Error) << block;
  }
  bad.indexes[0].block = 4;
  EXPECT_NO_THROW(plan_memory(bad, options("f16"), 1));
}

}  // namespace chooser_test
}  // namespace kvasir::kv
