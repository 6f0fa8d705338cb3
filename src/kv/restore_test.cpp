// Sequences that leave a cache as bytes and come back, in the same cache and in another one.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.hpp"
#include "kv/cache_fixture.hpp"
#include "kv/codec.hpp"
#include "kv/device_fixture.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {
namespace restore_test {

using namespace fixture;

const CacheShape kShape = CacheShape::uniform(2, {.kv_heads = 2, .query_heads = 4, .head_dim = 32, .head_dim_v = 64});

CacheOptions options(const std::string& k, const std::string& v, int window, int sinks) {
  return {.k_codec = k,
          .v_codec = v,
          .window = window,
          .sinks = sinks,
          .max_tokens = 2048,
          .max_sequences = 3,
          .device = fixture::suite_device()};
}

struct Bytes {
  std::vector<std::vector<std::byte>> pages;
  std::vector<std::byte> tail;
};

Bytes take(Cache& cache, const Sequence& s) {
  Bytes b;
  for (std::int64_t p = 0; p < cache.stats(s).sealed_tokens / 128; ++p) {
    auto& page = b.pages.emplace_back();
    for (const auto piece : cache.bytes().sealed_page(s, p)) page.insert(page.end(), piece.begin(), piece.end());
  }
  b.tail.resize(cache.rules().tail_bytes(Cache::length(s)));
  cache.bytes().save_tail(s, Cache::length(s), b.tail);
  return b;
}

Sequence* give(Cache& cache, std::int64_t n, const Bytes& b) {
  Sequence* s = cache.bytes().restore(n, b.tail);
  EXPECT_EQ(static_cast<std::size_t>(cache.stats(*s).sealed_tokens / 128), b.pages.size());
  for (std::size_t p = 0; p < b.pages.size(); ++p)
    cache.bytes().fill_page(*s, static_cast<std::int64_t>(p), b.pages[p]);
  return s;
}

// The same bits afterwards as without the detour, whatever the length, window, sinks and codec.
TEST(Restore, GoesOnWhereTheSequenceWas) {
  Team team(2);
  const std::pair<const char*, const char*> codecs[] = {{"f16", "f16"}, {"f32", "bf16"}, {"rq4", "int4_token"}};
  for (const auto& [k, v] : codecs)
    for (const auto& [window, sinks] : {std::pair{128, 4}, {0, 0}, {200, 17}})
      for (const int n : {1, 3, 16, 127, 128, 129, 255, 256, 257, 600}) {
        SCOPED_TRACE(std::string(k) + "/" + v + " window " + std::to_string(window) + " n " + std::to_string(n));
        const Tokens tokens = random_tokens(kShape, n + 200, 7);
        Cache here(team, kShape, options(k, v, window, sinks));
        Sequence* original = here.create();
        feed(here, original, tokens, 0, n, 50);
        const Bytes bytes = take(here, *original);

        Cache there(team, kShape, options(k, v, window, sinks));
        Sequence* other = there.create();  // so that slots differ
        feed(there, other, tokens, 0, 300 < n ? 300 : n, 64);
        Sequence* copy = give(there, n, bytes);
        EXPECT_EQ(there.bytes().digest(*copy), here.bytes().digest(*original));
        const auto want = feed(here, original, tokens, n, n + 200, 40);
        const auto got = feed(there, copy, tokens, n, n + 200, 33);
        EXPECT_EQ(got, want);
        EXPECT_EQ(there.bytes().digest(*copy), here.bytes().digest(*original));
        there.release(copy);
        there.check_integrity();
      }
}

// Where pages suffice, a sequence of whole pages goes on with the same bits as one that was computed, and a tail of any
// beginning lends it the sinks; such tails can be made at any time.
TEST(Restore, LosslessPagesNeedNoTailOfTheirOwn) {
  Team team(2);
  for (const auto& [k, v] : {std::pair{"f16", "f16"}, {"f32", "bf16"}})
    for (const auto& [window, sinks] : {std::pair{128, 4}, {0, 0}, {200, 17}})
      for (const int pages : {1, 2, 3, 5}) {
        SCOPED_TRACE(std::string(k) + "/" + v + " window " + std::to_string(window) + " pages " +
                     std::to_string(pages));
        const int n = pages * 128;
        const Tokens tokens = random_tokens(kShape, 1200, 7);
        Cache here(team, kShape, options(k, v, window, sinks));
        ASSERT_TRUE(here.rules().pages_suffice());
        Sequence* longer = here.create();
        feed(here, longer, tokens, 0, 1100, 50);
        const Bytes bytes = take(here, *longer);
        Cache there(team, kShape, options(k, v, window, sinks));
        Sequence* other = there.create();
        feed(there, other, tokens, 300, 900, 64);  // so that no raw page is fresh
        there.release(other);
        for (const int of : {17, 33, 120}) {
          std::vector<std::byte> tail(here.rules().tail_bytes(of));
          ASSERT_TRUE(here.rules().keeps_tail(Cache::length(*longer), of));
          here.bytes().save_tail(*longer, of, tail);
          Sequence* original = there.create();
          feed(there, original, tokens, 0, n, 100);
          Sequence* copy = there.bytes().restore_pages(pages, of, tail);
          for (int p = 0; p < pages; ++p) there.bytes().fill_page(*copy, p, bytes.pages[static_cast<std::size_t>(p)]);
          EXPECT_EQ(there.bytes().digest(*copy), there.bytes().digest(*original));
          EXPECT_EQ(feed(there, copy, tokens, n, n + 300, 33), feed(there, original, tokens, n, n + 300, 40));
          EXPECT_EQ(there.bytes().digest(*copy), there.bytes().digest(*original));
          there.release(copy);
          there.release(original);
          there.check_integrity();
        }
      }
}

TEST(Restore, OnlyLosslessCachesOfOneKindOfLayerNeedNoTails) {
  Team team(1);
  EXPECT_FALSE(Cache(team, kShape, options("f16", "rq4", 128, 4)).rules().pages_suffice());
  CacheShape local = kShape;
  local.layers[1].window = 200;
  EXPECT_FALSE(Cache(team, local, options("f16", "f16", 128, 4)).rules().pages_suffice());
  CacheShape states = kShape;
  states.layers.push_back({.recurrent = {.channels = 16, .taps = 4}});
  EXPECT_FALSE(Cache(team, states, options("f16", "f16", 128, 4)).rules().pages_suffice());
}

// The tail of a beginning is the one that it had, until a page is sealed.
TEST(Restore, TailsOfBeginningsAreThoseOfShorterSequences) {
  Team team(2);
  for (const auto& [window, sinks] : {std::pair{128, 4}, {0, 0}, {200, 17}}) {
    Cache cache(team, kShape, options("rq4", "int4_token", window, sinks));
    const Tokens tokens = random_tokens(kShape, 450, 7);
    Sequence* s = cache.create();
    std::vector<std::vector<std::byte>> tails(1);
    int kept = 0;
    for (int n = 1; n <= 450; ++n) {
      feed(cache, s, tokens, n - 1, n, 1);
      tails.emplace_back(cache.rules().tail_bytes(n));
      cache.bytes().save_tail(*s, n, tails.back());
      EXPECT_TRUE(cache.rules().keeps_tail(Cache::length(*s), n));
      EXPECT_FALSE(cache.rules().keeps_tail(Cache::length(*s), n + 1));
      for (int m = n > 140 ? n - 140 : 1; m < n; m += 7) {
        EXPECT_EQ(cache.rules().keeps_tail(Cache::length(*s), m),
                  cache.rules().sealed_pages(m) == cache.rules().sealed_pages(n))
            << m << ' ' << n;
        if (!cache.rules().keeps_tail(Cache::length(*s), m)) continue;
        std::vector<std::byte> again(cache.rules().tail_bytes(m));
        cache.bytes().save_tail(*s, m, again);
        ASSERT_EQ(again, tails[static_cast<std::size_t>(m)]) << m << ' ' << n;
        ++kept;
      }
    }
    EXPECT_GT(kept, 400);
  }
}

TEST(Restore, WhatDoesNotFitChangesNothing) {
  Team team(1);
  CacheOptions o = options("rq4", "rq4", 128, 4);
  o.max_sequences = 1;
  o.max_tokens = 1024;
  Cache cache(team, kShape, o);
  const auto code = [&](std::int64_t n, std::size_t bytes) {
    const std::vector<std::byte> tail(bytes);
    try {
      cache.bytes().restore(n, tail);
    } catch (const Error& e) {
      return e.code();
    }
    return Code::kCancelled;
  };
  const std::int64_t free = cache.stats().free_pages;
  EXPECT_EQ(code(500, cache.rules().tail_bytes(500) - 1), Code::kBadInput);
  EXPECT_EQ(code(500, 0), Code::kBadInput);
  EXPECT_EQ(code(5000, cache.rules().tail_bytes(5000)), Code::kMemory);
  EXPECT_EQ(cache.stats().free_pages, free);
  Sequence* only = cache.create();
  EXPECT_EQ(code(500, cache.rules().tail_bytes(500)), Code::kMemory);
  EXPECT_EQ(cache.stats().free_pages, free);
  cache.release(only);
  cache.check_integrity();
  EXPECT_EQ(code(500, cache.rules().tail_bytes(500)), Code::kCancelled);  // accepted
}

// A tail is the raw tokens and nothing else: the window, the page that fills, the sinks.
TEST(Restore, TailsHoldOnlyWhatIsRaw) {
  Team team(1);
  Cache cache(team, kShape, options("rq4", "rq4", 128, 4));
  const std::size_t token = 2 * 2 * (32 + 64) * 2;  // layers, heads, elements, bytes of f16
  EXPECT_EQ(cache.rules().tail_bytes(1), token);
  EXPECT_EQ(cache.rules().tail_bytes(128), 128 * token);
  EXPECT_EQ(cache.rules().tail_bytes(256), 256 * token);
  EXPECT_EQ(cache.rules().tail_bytes(257), (129 + 4) * token);
  EXPECT_EQ(cache.rules().tail_bytes(1000), (1000 - 6 * 128 + 4) * token);
}

}  // namespace restore_test
}  // namespace kvasir::kv
