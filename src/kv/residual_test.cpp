// CacheOptions::residual: raw to the token, though pages are sealed whole. What a page's border in the middle of
// another page may upset: chunks, windows of layers, forks, cuts, tails, drafts and selectors.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "kv/device_fixture.hpp"
#include "kv/layout.hpp"
#include "kv/outputs_fixture.hpp"
#include "select/spec.hpp"

namespace kvasir::kv {
namespace {

using fixture::append;
using fixture::decode;
using fixture::expect_same_bits;
using fixture::feed;
using fixture::Outputs;
using fixture::Tokens;

constexpr int kStepTokens = 300;
const std::vector<int> kResiduals{0, 1, 2, 40, 64, 127, 128, 129, 130, 200, 257, 300};

// Ordinary layers, windows smaller and larger than what is raw, readers of both, and rows of latent attention.
CacheShape residual_shape() {
  CacheShape s;
  s.layers = {{1, 2, 32, 32},      {1, 2, 32, 32, 50},   {2, 4, 16, 16, 128}, {1, 2, 32, 32, 129},
              {1, 2, 32, 32, 300}, {1, 2, 32, 32, 5000}, {1, 2, 32, 32, 1}};
  LayerShape reads_full = s.layers[0], reads_local = s.layers[4];
  reads_full.kv_of = 0;
  reads_local.kv_of = 4;
  s.layers.push_back(reads_full);
  s.layers.push_back(reads_local);
  s.layers.push_back({.kv_heads = 1, .query_heads = 5, .head_dim = 48, .head_dim_v = 32, .latent = true});
  s.layers.push_back(
      {.kv_heads = 1, .query_heads = 2, .head_dim = 32, .head_dim_v = 32, .window = 200, .chunked = true});
  return s;
}

CacheOptions residual_options(int residual, const std::string& codec, int tokens = 4000, int sequences = 3) {
  CacheOptions o;
  o.k_codec = o.v_codec = codec;
  o.residual = residual;
  o.max_tokens = tokens;
  o.max_sequences = sequences;
  o.step_tokens = kStepTokens;
  o.device = fixture::suite_device();
  return o;
}

Outputs rows_from(const CacheShape& s, const Outputs& all, int from) {
  Outputs rest;
  for (std::size_t l = 0; l < all.size(); ++l)
    rest.emplace_back(all[l].begin() + std::ptrdiff_t{from} * s.layers[l].query_heads * s.layers[l].head_dim_v,
                      all[l].end());
  return rest;
}

TEST(Residual, SealsAPageOnceAsManyTokensFollowIt) {
  Team team(1);
  for (const int residual : kResiduals) {
    const int r = std::max(residual, 1);
    Cache cache(team, residual_shape(), residual_options(residual, "rq4"));
    for (int n = 1; n < 1500; ++n) {  // the newest of n tokens sees n of them
      const auto sealed = static_cast<int>(cache.rules().sealed_pages(n)) * 128;
      EXPECT_EQ(sealed, std::max(0, n - r) / 128 * 128) << residual << " " << n;
      EXPECT_GE(n - sealed, std::min(n, r));
      EXPECT_LT(n - sealed, r + 128);
    }
  }
}

// A layer whose window is the residual reads no sealed page, so 2 bits per number do not show in it; one whose window
// is a page longer does.
TEST(Residual, SoManyTokensAreReadAsTheyWere) {
  for (const int residual : {1, 40, 64, 128, 129, 200, 300}) {
    CacheShape s;
    s.layers = {{1, 2, 32, 32, residual}, {1, 2, 32, 32, residual + 128}};
    const int n = 900;
    const Tokens t = fixture::random_tokens(s, n, 21);
    Team team(2);
    for (const int chunk : {1, 77, kStepTokens}) {
      CacheOptions o = residual_options(residual, "int2_token");
      o.sinks = 0;
      Cache cache(team, s, o);
      const Outputs out = feed(cache, cache.create(), t, 0, n, chunk);
      EXPECT_LT(fixture::error_against_double(s, t, out[0], "f16", 0), 1e-6) << residual << " " << chunk;
      EXPECT_GT(fixture::error_against_double(s, t, out[1], "f16", 1), 1e-3) << residual << " " << chunk;
    }
  }
}

TEST(Residual, LosslessCachesAgreeWithDouble) {
  const CacheShape s = residual_shape();
  const Tokens t = fixture::random_tokens(s, 700, 22);
  Team team(2);
  for (const int residual : kResiduals) {
    Cache cache(team, s, residual_options(residual, "f16"));
    const Outputs out = feed(cache, cache.create(), t, 0, 700, 111);
    for (int l = 0; l < s.count(); ++l)
      EXPECT_LT(fixture::error_against_double(s, t, out[static_cast<std::size_t>(l)], "f16", l), 1e-6)
          << residual << " layer " << l;
  }
}

// Of whole pages and a token it is what `window` is.
TEST(Residual, AWindowIsAResidualOfWholePagesAndAToken) {
  const CacheShape s = residual_shape();
  const Tokens t = fixture::random_tokens(s, 900, 23);
  Team team(2);
  for (const int window : {0, 128, 256}) {
    CacheOptions by_window = residual_options(-1, "rq4");
    by_window.window = window;
    Cache a(team, s, by_window), b(team, s, residual_options(window + 1, "rq4"));
    EXPECT_EQ(a.memory().total(), b.memory().total());
    Sequence* const x = a.create();
    Sequence* const y = b.create();
    expect_same_bits(feed(a, x, t, 0, 900, 100), feed(b, y, t, 0, 900, 100), std::to_string(window));
    EXPECT_EQ(a.bytes().digest(*x), b.bytes().digest(*y));
  }
}

TEST(Residual, ChunksThreadsAndOtherSequencesNeverShow) {
  const CacheShape s = residual_shape();
  const int n = 900;
  const Tokens t = fixture::random_tokens(s, n, 24), other = fixture::random_tokens(s, n, 25);
  for (const char* codec : {"f16", "rq4", "int4_token"})
    for (const int residual : {1, 40, 128, 200}) {
      if (std::string(codec) != "rq4" && residual != 40) continue;
      SCOPED_TRACE(std::string(codec) + " residual " + std::to_string(residual));
      Team one(1), three(3);
      Cache a(one, s, residual_options(residual, codec)), b(three, s, residual_options(residual, codec));
      Sequence* const x = a.create();
      const Outputs want = feed(a, x, t, 0, n, kStepTokens);
      for (const int chunk : {1, 61}) {
        Sequence* const y = b.create();
        Sequence* const z = b.create();
        Outputs got;
        for (int at = 0; at < n; at += chunk) {  // beside another one, at other places of its pages
          const int count = std::min(chunk, n - at);
          if (at >= 40) {
            const auto both = fixture::step(b, {{z, &other, at - 40, count}, {y, &t, at, count}});
            append(&got, both[1]);
          } else {
            append(&got, fixture::step(b, {{y, &t, at, count}})[0]);
            const int more = std::min(40, at + count) - static_cast<int>(Cache::length(*z));
            if (at + count >= 40 && more > 0) feed(b, z, other, 0, at + count - 40, kStepTokens);
          }
        }
        expect_same_bits(got, want, "chunks of " + std::to_string(chunk));
        EXPECT_EQ(b.bytes().digest(*y), a.bytes().digest(*x));
        b.release(y);
        b.release(z);
        b.check_integrity();
      }
    }
}

TEST(Residual, ForkedAndRestoredSequencesGoOnWithTheSameBits) {
  const CacheShape s = residual_shape();
  for (const char* codec : {"f16", "rq4"})
    for (const int residual : {1, 40, 64, 128, 200})
      for (const int n : {1, 39, 40, 128, 167, 168, 191, 192, 300, 328, 329, 640}) {
        const int more = n + 200;
        const Tokens t = fixture::random_tokens(s, more, 26);
        Team team(2);
        Cache cache(team, s, residual_options(residual, codec));
        Sequence* sequence = cache.create();
        const Outputs expected = rows_from(s, feed(cache, sequence, t, 0, more, 100), n);
        cache.release(sequence);
        Sequence* trunk = cache.create();
        feed(cache, trunk, t, 0, n, 100);
        Sequence* fork = cache.fork(*trunk);
        const std::string what =
            std::string(codec) + " residual " + std::to_string(residual) + " n " + std::to_string(n);
        expect_same_bits(feed(cache, fork, t, n, more, 50), expected, what + " forked");

        std::vector<std::byte> tail(cache.rules().tail_bytes(n));
        cache.bytes().save_tail(*trunk, n, tail);
        Cache other(team, s, residual_options(residual, codec));
        Sequence* restored = other.bytes().restore(n, tail);
        for (std::int64_t i = 0; i < cache.rules().sealed_pages(n); ++i) {
          std::vector<std::byte> page;
          for (const auto piece : cache.bytes().sealed_page(*trunk, i))
            page.insert(page.end(), piece.begin(), piece.end());
          other.bytes().fill_page(*restored, i, page);
        }
        EXPECT_EQ(other.bytes().digest(*restored), cache.bytes().digest(*trunk)) << what;
        expect_same_bits(feed(other, restored, t, n, more, 130), expected, what + " restored");
        cache.check_integrity();
        other.check_integrity();
      }
}

// A cut is exact or refused; within a page it is refused where that page has seen another one sealed. What the cache
// says of tails and drafts is where these borders are.
TEST(Residual, CutsAreExactOrRefused) {
  const CacheShape s = residual_shape();
  Team team(1);
  for (const char* codec : {"f16", "rq4"})
    for (const int residual : {1, 40, 64, 128, 200})
      for (const int n : {200, 300, 384, 450}) {
        const Tokens t = fixture::random_tokens(s, n + 60, 27);
        Cache cache(team, s, residual_options(residual, codec));
        const int begin = (n - 1) / 128 * 128 + 1;
        int refused = 0;
        for (int keep = begin; keep <= n; keep += 7) {
          const std::string what = std::string(codec) + " " + std::to_string(residual) + ": " + std::to_string(n) +
                                   " to " + std::to_string(keep);
          Sequence* cut = cache.create();
          feed(cache, cut, t, 0, n, 90);
          const bool kept = cache.rules().keeps_tail(n, keep);
          EXPECT_EQ(kept, keep >= cache.rules().tail_kept_from(n)) << what;
          EXPECT_EQ(kept, n <= cache.rules().tail_kept_to(keep)) << what;
          EXPECT_EQ(cache.rules().can_truncate(*cut, keep), kept || std::string(codec) == "f16") << what;
          if (!cache.rules().can_truncate(*cut, keep)) {
            ++refused;
            const std::uint64_t digest = cache.bytes().digest(*cut);
            EXPECT_THROW(cache.truncate(cut, keep), Error);
            EXPECT_EQ(cache.bytes().digest(*cut), digest);
            cache.release(cut);
            continue;
          }
          cache.truncate(cut, keep);
          Sequence* plain = cache.create();
          feed(cache, plain, t, 0, keep, 90);
          EXPECT_EQ(cache.bytes().digest(*cut), cache.bytes().digest(*plain)) << what;
          expect_same_bits(feed(cache, cut, t, keep, keep + 60, 60), feed(cache, plain, t, keep, keep + 60, 1), what);
          cache.release(cut);
          cache.release(plain);
          cache.check_integrity();
        }
        if (std::string(codec) == "rq4" && residual == 40 && n == 300) {
          EXPECT_GT(refused, 0);
        }
      }
}

TEST(Residual, DraftsAreCutBackToAnyOfTheirTokens) {
  const CacheShape s = residual_shape();
  Team team(1);
  for (const int residual : {1, 40, 64, 129}) {
    const Tokens t = fixture::random_tokens(s, 700, 28);
    Cache cache(team, s, residual_options(residual, "rq4"));
    for (int n = 250; n < 400; n += 3) {
      Sequence* const sequence = cache.create();
      feed(cache, sequence, t, 0, n, 100);
      const auto room = static_cast<int>(cache.rules().draft_room(*sequence));
      EXPECT_GE(room, 0);
      EXPECT_LT(room, 128);
      fixture::step(cache, {{sequence, &t, n, room + 1, true}});
      EXPECT_TRUE(cache.rules().can_truncate(*sequence, n + 1)) << residual << " " << n;
      cache.truncate(sequence, n + 1);
      Sequence* const plain = cache.create();
      feed(cache, plain, t, 0, n, 100);
      decode(cache, plain, t, n, n + 1);
      EXPECT_EQ(cache.bytes().digest(*sequence), cache.bytes().digest(*plain)) << residual << " " << n;
      cache.release(sequence);
      cache.release(plain);
    }
  }
}

TEST(Residual, SelectorsSeeStepsNoMore) {
  CacheShape s = CacheShape::uniform(2, {2, 6, 32, 32});
  constexpr int kPrompt = 1490, kAll = kPrompt + 70;
  const Tokens t = fixture::random_tokens(s, kAll, 29);
  for (const char* spec :
       {"quest:budget=512", "quest:budget=512:token_step=5:block=16", "dynamic:anchors=2:budget=512:token_step=3",
        "quest:budget=512:prompt=16", "mean:budget=30%:block=16:prompt=64:meter=16:floor=0.7", "snapkv:budget=512",
        "snapkv_window:budget=400:block=8", "keys:budget=400:block=1", "keys:budget=384:block=16:prompt=16",
        "spread:budget=512:prompt=32:tail=mean"})
    for (const int residual : {1, 40, 100}) {
      SCOPED_TRACE(std::string(spec) + " residual " + std::to_string(residual));
      const auto ran = [&](int threads, int chunk, std::uint64_t* digest) {
        CacheOptions o = residual_options(residual, "rq4", 2 * kAll);
        o.selector = select::read_selector(spec, "test");
        Team team(threads);
        Cache cache(team, s, o);
        Sequence* sequence = cache.create();
        Outputs out = feed(cache, sequence, t, 0, kPrompt, chunk);
        Sequence* fork = cache.fork(*sequence);
        append(&out, decode(cache, fork, t, kPrompt, kAll));
        EXPECT_GT(cache.stats(*fork).selection.total().chosen, 0);
        *digest = cache.bytes().digest(*fork);
        cache.check_integrity();
        return out;
      };
      std::uint64_t a = 0, b = 0;
      const Outputs one = ran(1, 500, &a);
      for (const int chunk : {37, 128}) {
        expect_same_bits(ran(3, chunk, &b), one, "chunks of " + std::to_string(chunk));
        EXPECT_EQ(a, b);
      }
    }
}

TEST(Residual, MemoryIsOfAsManyPagesAsAreRawAtATime) {
  const CacheShape s = CacheShape::uniform(1, {1, 1, 64, 64});
  const auto raw = [&](int residual) {
    return static_cast<std::int64_t>(plan_memory(s, residual_options(residual, "rq4", 4000, 1), 1).raw_bytes) /
           (128 * 64 * 4);
  };
  EXPECT_EQ(raw(0), 1);
  EXPECT_EQ(raw(1), 1);
  EXPECT_EQ(raw(2), 2);
  EXPECT_EQ(raw(64), 2);
  EXPECT_EQ(raw(129), 2);
  EXPECT_EQ(raw(130), 3);
  EXPECT_EQ(raw(1 << 24), 33);  // all that there can be
  EXPECT_THROW(plan_memory(s, residual_options(-2, "rq4"), 1), Error);
}

}  // namespace
}  // namespace kvasir::kv
