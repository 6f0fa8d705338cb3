// Sequences, pages and budgets: fork, truncate, exhaustion, accounting, and no allocation in a step.
#include "kv/cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "kv/cache_fixture.hpp"
#include "kv/codec.hpp"
#include "kv/device_fixture.hpp"
#include "select/spec.hpp"
#include "tensor/buffer.hpp"

namespace {
std::atomic<long> g_allocations{0};
}  // namespace

// noinline: g++ takes an inlined replacement for a mismatched pair of new and free.
__attribute__((noinline)) void* operator new(std::size_t n) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace kvasir::kv {
namespace {

using fixture::Tokens;

CacheOptions options_for(std::int64_t tokens, int sequences = 1, int window = 128, int sinks = 4) {
  CacheOptions o;
  o.window = window;
  o.sinks = sinks;
  o.max_tokens = tokens;
  o.max_sequences = sequences;
  o.device = fixture::suite_device();
  return o;
}

const CacheShape kShape = CacheShape::uniform(2, {2, 6, 16, 16});

TEST(Cache, ForkThenContinueEqualsNeverForked) {
  Team team(2);
  const int n = 600;
  const Tokens t = fixture::random_tokens(kShape, n, 1);
  const Tokens other = fixture::random_tokens(kShape, n, 2);
  for (const int cut : {0, 1, 3, 127, 128, 129, 256, 300, 512}) {
    Cache cache(team, kShape, options_for(3 * n, 3));
    Sequence* straight = cache.create();
    const auto want = fixture::feed(cache, straight, t, 0, n, 64);
    Sequence* parent = cache.create();
    fixture::feed(cache, parent, t, 0, cut, 64);
    const auto free_before = cache.stats().free_pages;
    Sequence* child = cache.fork(*parent);
    EXPECT_EQ(cache.stats().free_pages, free_before);
    EXPECT_EQ(cache.bytes().digest(*child), cache.bytes().digest(*parent));
    fixture::feed(cache, parent, other, cut, n, 50);  // goes its own way
    const auto got = fixture::feed(cache, child, t, cut, n, 33);
    for (std::size_t l = 0; l < got.size(); ++l)
      EXPECT_EQ(
          std::memcmp(got[l].data(), want[l].data() + want[l].size() - got[l].size(), got[l].size() * sizeof(float)),
          0);
    EXPECT_EQ(cache.bytes().digest(*child), cache.bytes().digest(*straight));
    EXPECT_NE(cache.bytes().digest(*child), cache.bytes().digest(*parent));
    cache.check_integrity();
    cache.release(parent);
    cache.check_integrity();
    EXPECT_EQ(cache.bytes().digest(*child), cache.bytes().digest(*straight));
    cache.release(child);
    cache.release(straight);
    cache.check_integrity();
    EXPECT_EQ(cache.stats().free_pages, cache.memory().pages);
  }
}

// Extents are of eight pages here.
const CacheShape kWide = CacheShape::uniform(2, {2, 2, 64, 64});

TEST(Cache, PagesOfASequenceLieInARow) {
  Team team(1);
  constexpr int kTokens = 128 * 20;
  const Tokens t = fixture::random_tokens(kWide, kTokens, 1);
  Cache cache(team, kWide, options_for(kTokens));
  Sequence* s = cache.create();
  fixture::feed(cache, s, t, 0, kTokens, 128);
  const std::int64_t pages = cache.stats(*s).sealed_tokens / 128;
  ASSERT_GT(pages, 16);
  for (std::int64_t page = 0; page + 1 < pages; ++page) {
    const auto here = cache.bytes().sealed_page(*s, page), next = cache.bytes().sealed_page(*s, page + 1);
    ASSERT_EQ(here.size(), 8u);  // layers, heads, keys and values
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < here.size(); ++i) {
      bytes += here[i].size();
      if (page % 8 == 7) continue;  // the last one of an extent
      EXPECT_EQ(here[i].data() + here[i].size(), next[i].data()) << page << " " << i;
    }
    EXPECT_EQ(bytes, cache.memory().chunk_bytes);
  }
}

TEST(Cache, SequencesThatShareExtentsDoNotMeet) {
  Team team(2);
  constexpr int kTokens = 128 * 12;
  constexpr int kSequences = 3;
  Cache cache(team, kWide, options_for(kSequences * kTokens, kSequences));  // more pages than whole extents
  std::vector<Tokens> t;
  std::vector<Sequence*> s;
  for (int i = 0; i < kSequences; ++i) {
    t.push_back(fixture::random_tokens(kWide, kTokens, static_cast<std::uint64_t>(i)));
    s.push_back(cache.create());
  }
  std::vector<std::vector<float>> got[kSequences];
  for (int at = 0; at < kTokens; at += 128)
    for (std::size_t i = 0; i < kSequences; ++i) got[i] = fixture::feed(cache, s[i], t[i], at, at + 128, 128);
  cache.check_integrity();
  for (std::size_t i = 0; i < kSequences; ++i) {
    Cache own(team, kWide, options_for(kTokens));
    Sequence* alone = own.create();
    fixture::feed(own, alone, t[i], 0, kTokens - 128, 128);
    EXPECT_EQ(fixture::feed(own, alone, t[i], kTokens - 128, kTokens, 128), got[i]);
    EXPECT_EQ(own.bytes().digest(*alone), cache.bytes().digest(*s[i]));
  }
}

TEST(Cache, TruncateThenContinueEqualsNeverLonger) {
  Team team(1);
  const int n = 700;
  const Tokens t = fixture::random_tokens(kShape, n, 3);
  const Tokens other = fixture::random_tokens(kShape, n, 4);
  for (const int window : {0, 128, 300}) {
    for (const int sinks : {0, 4, 128}) {
      for (const int cut : {0, 1, 4, 100, 128, 129, 255, 256, 500, 640, 700}) {
        Cache cache(team, kShape, options_for(3 * n, 3, window, sinks));
        Sequence* straight = cache.create();
        fixture::feed(cache, straight, t, 0, cut, 64);
        Sequence* cut_back = cache.create();
        fixture::feed(cache, cut_back, t, 0, cut, 64);
        fixture::feed(cache, cut_back, other, cut, n, 64);
        Sequence* sharer = cache.fork(*cut_back);
        const auto before = cache.bytes().digest(*sharer);
        cache.truncate(cut_back, cut);
        EXPECT_EQ(Cache::length(*cut_back), cut);
        EXPECT_EQ(cache.bytes().digest(*cut_back), cache.bytes().digest(*straight))
            << window << " " << sinks << " " << cut;
        EXPECT_EQ(cache.stats(*cut_back).sealed_tokens, cache.stats(*straight).sealed_tokens);
        cache.check_integrity();
        const auto a = fixture::feed(cache, straight, t, cut, n, 90);
        const auto b = fixture::feed(cache, cut_back, t, cut, n, 1);
        EXPECT_EQ(a, b);
        EXPECT_EQ(cache.bytes().digest(*cut_back), cache.bytes().digest(*straight));
        EXPECT_EQ(cache.bytes().digest(*sharer), before);
        cache.check_integrity();
      }
    }
  }
}

TEST(Cache, ExhaustionIsAnErrorThatChangesNothing) {
  Team team(2);
  const int n = 1000;
  const Tokens t = fixture::random_tokens(kShape, n, 5);
  Cache cache(team, kShape, options_for(n, 2));
  Sequence* a = cache.create();
  Sequence* b = cache.create();
  EXPECT_THROW(cache.create(), Error);
  EXPECT_THROW(cache.fork(*a), Error);
  fixture::feed(cache, a, t, 0, 600, 300);
  fixture::feed(cache, b, t, 0, 300, 300);
  const auto digest_a = cache.bytes().digest(*a);
  const auto digest_b = cache.bytes().digest(*b);
  const auto free = cache.stats().free_pages;
  // Together they need more pages than there are; alone each would fit.
  const Slice both[] = {{a, 0, 300}, {b, 300, 600}};
  EXPECT_THROW(cache.begin(both), Error);
  EXPECT_EQ(cache.stats().free_pages, free);
  EXPECT_EQ(cache.bytes().digest(*a), digest_a);
  EXPECT_EQ(cache.bytes().digest(*b), digest_b);
  cache.check_integrity();
  const Slice too_long[] = {{a, 0, 401}};
  try {
    cache.begin(too_long);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kMemory);
    EXPECT_NE(std::string(e.what()).find("1001"), std::string::npos) << e.what();
  }
  cache.release(b);
  fixture::feed(cache, a, t, 600, n, 300);
  cache.check_integrity();
  EXPECT_EQ(Cache::length(*a), n);
}

TEST(Cache, AbortEmptiesOnlyItsSequences) {
  Team team(1);
  const Tokens t = fixture::random_tokens(kShape, 700, 6);
  Cache cache(team, kShape, options_for(2000, 2));
  Sequence* a = cache.create();
  Sequence* b = cache.create();
  fixture::feed(cache, a, t, 0, 300, 300);
  fixture::feed(cache, b, t, 0, 300, 300);
  const auto digest = cache.bytes().digest(*b);
  const Slice slices[] = {{a, 0, 400}};
  cache.begin(slices);
  std::vector<float> out(400 * 6 * 16);
  cache.attend(0, t.q[0].data(), t.k[0].data(), t.v[0].data(), out.data(), {0.25f});
  EXPECT_THROW(cache.attend(0, t.q[0].data(), t.k[0].data(), t.v[0].data(), out.data(), {0.25f}), std::logic_error);
  EXPECT_THROW(cache.commit(), std::logic_error);  // layer 1 is missing
  cache.abort();
  cache.check_integrity();
  EXPECT_EQ(Cache::length(*a), 0);
  EXPECT_EQ(cache.bytes().digest(*b), digest);
  const auto again = fixture::feed(cache, a, t, 0, 300, 300);
  EXPECT_EQ(cache.bytes().digest(*a), digest);
}

TEST(Cache, BadOptionsNameThemselves) {
  Team team(1);
  const auto message = [&](const CacheShape& s, const CacheOptions& o) -> std::string {
    try {
      Cache cache(team, s, o);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kBadInput);
      return e.what();
    }
    return "accepted";
  };
  CacheOptions o = options_for(100);
  EXPECT_EQ(message(kShape, o), "accepted");
  o.k_codec = "f17";
  EXPECT_NE(message(kShape, o).find("'f17'"), std::string::npos);
  for (const auto& entry : codecs()) EXPECT_NE(message(kShape, o).find(entry.name), std::string::npos) << entry.name;
  o = options_for(100);
  o.window = -1;
  EXPECT_NE(message(kShape, o).find("window"), std::string::npos);
  o = options_for(100);
  o.sinks = 129;
  EXPECT_NE(message(kShape, o).find("sinks"), std::string::npos);
  o = options_for(0);
  EXPECT_NE(message(kShape, o).find("max_tokens"), std::string::npos);
  EXPECT_NE(message(CacheShape::uniform(2, {2, 5, 16, 16}), options_for(100)).find("query_heads"), std::string::npos);
  EXPECT_NE(message(CacheShape::uniform(2, {2, 6, 12, 16}), options_for(100)).find("multiple of 8"), std::string::npos);
}

TEST(Cache, MemoryIsThePlan) {
  Team team(2);
  for (const std::size_t budget : {std::size_t{3} << 20, std::size_t{50} << 20}) {
    CacheOptions o = options_for(0, 2);
    o.budget_bytes = budget;
    const auto before = tensor::allocated_bytes(tensor::Tag::kCache) + tensor::allocated_bytes(tensor::Tag::kScratch);
    Cache cache(team, kShape, o);
    const auto held =
        tensor::allocated_bytes(tensor::Tag::kCache) + tensor::allocated_bytes(tensor::Tag::kScratch) - before;
    const MemoryPlan& m = cache.memory();
    EXPECT_LE(held, budget);
    EXPECT_EQ(m.k_chunk_bytes, 2u * 2 * 128 * 16 * 2);
    EXPECT_EQ(m.chunk_bytes, m.k_chunk_bytes + m.v_chunk_bytes);
    EXPECT_EQ(m.k_bits, 16);
    EXPECT_DOUBLE_EQ(m.bytes_per_token, 2 * 2 * 2 * 16 * 2);
    EXPECT_NEAR(static_cast<double>(held), static_cast<double>(m.total()), 1024);
    EXPECT_GT(static_cast<double>(m.total() + 2 * m.chunk_bytes + 65536),
              static_cast<double>(budget) * 0.98);  // and it is used
    EXPECT_EQ(plan_memory(kShape, o, 2).total(), m.total());
  }
  CacheOptions o = options_for(0, 1);
  o.budget_bytes = 1000;
  EXPECT_THROW(Cache(team, kShape, o), Error);
}

// What a selector needs is in the plan, too: summaries, its answers, what it is asked with.
TEST(Cache, MemoryWithASelectorIsThePlan) {
  Team team(2);
  CacheOptions o = options_for(200000, 3);
  o.selector = select::read_selector("quest", "test");
  const auto before = tensor::allocated_bytes(tensor::Tag::kCache) + tensor::allocated_bytes(tensor::Tag::kScratch);
  Cache cache(team, kShape, o);
  const auto held =
      tensor::allocated_bytes(tensor::Tag::kCache) + tensor::allocated_bytes(tensor::Tag::kScratch) - before;
  EXPECT_NEAR(static_cast<double>(held), static_cast<double>(cache.memory().total()), 1024);
  EXPECT_EQ(plan_memory(kShape, o, 2).total(), cache.memory().total());
  const Tokens t = fixture::random_tokens(kShape, 1, 8);
  fixture::step(cache, {{cache.create(), &t, 0, 1}});
  EXPECT_NEAR(static_cast<double>(held), static_cast<double>(cache.memory().total()), 1024);
}

// Counted token by token from the sealing rule.
TEST(Cache, PackedShareCountsWhatIsSealed) {
  Team team(1);
  CacheOptions o = options_for(2048, 1, 128, 4);
  const CacheShape shape = CacheShape::uniform(2, {2, 4, 64, 64});
  const auto share = [&](const char* k, const char* v, std::int64_t first, std::int64_t count, bool decode) {
    o.k_codec = k;
    o.v_codec = v;
    return Cache(team, shape, o).rules().packed_share(first, count, decode);
  };
  double seen = 0;
  double sealed = 0;
  for (std::int64_t p = 200; p < 900; ++p)
    for (std::int64_t t = 0; t <= p; ++t) {
      seen += 1;
      sealed += t >= 4 && t / kPageTokens < p / kPageTokens - 1;  // window of a page; sinks stay raw
    }
  EXPECT_DOUBLE_EQ(share("rq4", "rq4", 200, 700, false), sealed / seen);
  EXPECT_DOUBLE_EQ(share("rq4", "f16", 200, 700, false), sealed / seen / 2);
  EXPECT_DOUBLE_EQ(share("rq4", "polar4", 200, 700, false), sealed / seen / 2);  // tiles of floats
  EXPECT_DOUBLE_EQ(share("rq4", "polar4", 200, 700, true), sealed / seen);
  EXPECT_EQ(share("f16", "f16", 200, 700, true), 0);
  EXPECT_EQ(share("rq4", "rq4", 0, 256, false), 0);  // nothing is sealed yet
  EXPECT_EQ(share("rq4", "rq4", 300, 0, false), 0);
}

TEST(Cache, DecodeDoesNotAllocate) {
  for (const int threads : {1, 2}) {
    Team team(threads);
    const int n = 1200;
    const Tokens t = fixture::random_tokens(kShape, n, 7);
    CacheOptions o = options_for(4 * n, 2);
    o.device = nullptr;  // a test's device allocates
    Cache cache(team, kShape, o);
    Sequence* a = cache.create();
    Sequence* b = cache.create();
    fixture::feed(cache, a, t, 0, 990, 330);
    fixture::feed(cache, b, t, 0, 100, 100);
    std::vector<float> out(2 * 6 * 16);
    long first = 0;
    for (int i = 0; i < 130; ++i) {  // crosses a page, a seal and a group of pages
      if (i == 2) first = g_allocations.load();
      const Slice slices[] = {{a, 0, 1}, {b, 1, 1}};
      cache.begin(slices);
      for (int l = 0; l < kShape.count(); ++l)
        cache.attend(l, t.q[0].data(), t.k[0].data(), t.v[0].data(), out.data(), {0.25f});
      cache.commit();
    }
    EXPECT_EQ(g_allocations.load(), first);
    cache.check_integrity();
  }
}

}  // namespace
}  // namespace kvasir::kv
