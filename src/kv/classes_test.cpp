// Layers with a window and layers that read another layer's keys, beside ordinary ones in one cache: the answers, law
// 1, and everything that a sequence goes through.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.hpp"
#include "kv/device_fixture.hpp"
#include "kv/layout.hpp"
#include "kv/outputs_fixture.hpp"
#include "simd/isa.hpp"

namespace kvasir::kv {
namespace {

using fixture::error_against_double;
using fixture::expect_same_bits;
using fixture::Outputs;
using fixture::Tokens;

constexpr int kStep = 300;  // most tokens of a step

LayerShape local(std::int64_t window, int kv_heads = 1, int query_heads = 2, int d = 32) {
  return {kv_heads, query_heads, d, d, window};
}

// All kinds: windows smaller than a page, of a page, of no whole pages and larger than what is fed, and readers of both
// classes with query heads of their own.
CacheShape mixed() {
  CacheShape s;
  s.layers = {{1, 2, 32, 32}, local(50), local(128), local(129), local(300, 2, 4, 16), local(5000), local(1)};
  LayerShape reads_full = s.layers[0];
  reads_full.kv_of = 0;
  reads_full.query_heads = 3;
  LayerShape reads_local = s.layers[4];
  reads_local.kv_of = 4;
  s.layers.push_back(reads_full);
  s.layers.push_back(reads_local);
  // Windows side by side, of whole pages and not.
  for (const std::int64_t window : {100, 256}) {
    s.layers.push_back(local(window));
    s.layers.back().chunked = true;
  }
  // Latent ones: of all tokens, of a window, with several KV heads, and a reader.
  s.layers.push_back({.kv_heads = 1, .query_heads = 5, .head_dim = 48, .head_dim_v = 32, .latent = true});
  s.layers.push_back(
      {.kv_heads = 2, .query_heads = 2, .head_dim = 32, .head_dim_v = 32, .window = 200, .latent = true});
  LayerShape reads_latent = s.layers[s.layers.size() - 2];
  reads_latent.kv_of = s.count() - 2;
  reads_latent.query_heads = 12;
  s.layers.push_back(reads_latent);
  return s;
}

CacheOptions options_for(int tokens, const char* codec, int window = 128, int sinks = 4, int sequences = 2) {
  CacheOptions o;
  o.k_codec = o.v_codec = codec;
  o.window = window;
  o.sinks = sinks;
  o.max_tokens = tokens;
  o.max_sequences = sequences;
  o.step_tokens = kStep;
  o.device = fixture::suite_device();
  return o;
}

// Rows from `from` on.
Outputs tail_of(const CacheShape& s, const Outputs& all, int from) {
  Outputs rest;
  for (std::size_t l = 0; l < all.size(); ++l)
    rest.emplace_back(
        all[l].begin() + static_cast<std::ptrdiff_t>(from) * s.layers[l].query_heads * s.layers[l].head_dim_v,
        all[l].end());
  return rest;
}

class Classes : public ::testing::Test {
 protected:
  void TearDown() override { simd::force(best_); }
  simd::Isa best_ = simd::active();
};

std::vector<simd::Isa> isas() {
  std::vector<simd::Isa> all;
  for (int i = 0; i < simd::kIsaCount; ++i)
    if (simd::supported(static_cast<simd::Isa>(i))) all.push_back(static_cast<simd::Isa>(i));
  return all;
}

TEST_F(Classes, AgreeWithDoubleOnEveryInstructionSet) {
  const CacheShape s = mixed();
  for (const simd::Isa isa : isas()) {
    simd::force(isa);
    for (const int window : {0, 128, 400})
      for (const int sinks : {0, 4, 128}) {
        if (isa == simd::Isa::kScalar && (window != 128 || sinks != 4)) continue;
        const int n = 700;
        const Tokens t = fixture::random_tokens(s, n, 11);
        Team team(2);
        Cache cache(team, s, options_for(n, "f16", window, sinks));
        const Outputs out = fixture::feed(cache, cache.create(), t, 0, n, kStep);
        for (int l = 0; l < s.count(); ++l)
          EXPECT_LT(error_against_double(s, t, out[static_cast<std::size_t>(l)], "f16", l), 1e-6)
              << simd::name(isa) << " window " << window << " sinks " << sinks << " layer " << l;
      }
  }
}

TEST_F(Classes, SoftCapsAgreeWithDouble) {
  const CacheShape s = mixed();
  const int n = 300;
  const Tokens t = fixture::random_tokens(s, n, 12, 20.0f);  // scores well beyond the cap
  for (const simd::Isa isa : isas()) {
    simd::force(isa);
    for (const float cap : {0.5f, 5.0f, 50.0f})
      for (const int chunk : {1, kStep}) {
        if (isa == simd::Isa::kScalar && chunk == 1) continue;
        Team team(2);
        Cache cache(team, s, options_for(n, "f32"));
        const Outputs out = fixture::feed(cache, cache.create(), t, 0, n, chunk, cap);
        for (int l = 0; l < s.count(); ++l)
          EXPECT_LT(error_against_double(s, t, out[static_cast<std::size_t>(l)], "f32", l, cap), 1e-5)
              << simd::name(isa) << " cap " << cap << " layer " << l;
      }
  }
}

TEST_F(Classes, ChunksAndThreadsNeverShow) {
  const CacheShape s = mixed();
  for (const char* codec : {"f16", "rq4", "int4_token", "turbo3"}) {
    CacheShape shape = s;
    if (std::string(codec) == "turbo3")
      for (LayerShape& l : shape.layers) l.head_dim = l.head_dim_v = 64;
    const int n = 900;
    const Tokens t = fixture::random_tokens(shape, n, 13);
    Outputs whole;
    std::uint64_t digest = 0;
    for (const int chunk : {kStep, 1, 7, 128, 129})
      for (const int threads : {1, 3}) {
        if (threads == 3 && chunk != 129) continue;
        Team team(threads);
        Cache cache(team, shape, options_for(n, codec));
        Sequence* sequence = cache.create();
        const Outputs out = fixture::feed(cache, sequence, t, 0, n, chunk);
        const std::string what = std::string(codec) + " chunk " + std::to_string(chunk);
        if (whole.empty()) {
          whole = out;
          digest = cache.bytes().digest(*sequence);
        }
        expect_same_bits(whole, out, what);
        EXPECT_EQ(digest, cache.bytes().digest(*sequence)) << what;
        cache.check_integrity();
      }
  }
}

// Of every codec: rows that see none of a sealed page, and pages that were given back, leave no trace.
TEST_F(Classes, EveryCodecComputesPromptsAloneAndInPieces) {
  for (const auto& entry : codecs()) {
    CacheShape s;
    s.layers = {{1, 2, 64, 64}, local(200, 1, 2, 64), local(64, 1, 2, 64)};
    s.layers.push_back({.kv_heads = 1, .query_heads = 4, .head_dim = 64, .head_dim_v = 64, .latent = true});
    const int n = 600;
    const Tokens t = fixture::random_tokens(s, n, 14);
    Team team(1);
    const std::string name(entry.name);
    // Codecs of one side stand beside f16 on the other.
    CacheOptions o = options_for(2 * n, "f16");
    if (entry.value->k.bytes) o.k_codec = name;
    if (entry.value->v.bytes) o.v_codec = name;
    Cache cache(team, s, o);
    Sequence* first = cache.create();
    Sequence* second = cache.create();
    expect_same_bits(fixture::feed(cache, first, t, 0, n, n), fixture::feed(cache, second, t, 0, n, 77), name);
    EXPECT_EQ(cache.bytes().digest(*first), cache.bytes().digest(*second)) << entry.name;
    for (const auto& layer : fixture::feed(cache, first, t, 0, 0, 1)) EXPECT_TRUE(layer.empty());
  }
}

TEST_F(Classes, ASequenceThatIsForkedOrRestoredGoesOnWithTheSameBits) {
  const CacheShape s = mixed();
  for (const char* codec : {"f16", "rq4"})
    for (const int n : {1, 127, 128, 129, 300, 511, 512, 513, 777}) {
      const int more = n + 200;
      const Tokens t = fixture::random_tokens(s, more, 15);
      Team team(2);
      Cache cache(team, s, options_for(4 * more, codec, 128, 4, 3));
      Sequence* sequence = cache.create();
      const Outputs whole = fixture::feed(cache, sequence, t, 0, more, 100);
      const Outputs expected = tail_of(s, whole, n);
      cache.release(sequence);

      Sequence* trunk = cache.create();
      fixture::feed(cache, trunk, t, 0, n, 100);
      Sequence* fork = cache.fork(*trunk);
      EXPECT_EQ(cache.bytes().digest(*fork), cache.bytes().digest(*trunk));
      const std::string what = std::string(codec) + " n " + std::to_string(n);
      expect_same_bits(fixture::feed(cache, fork, t, n, more, 50), expected, what + " forked");

      std::vector<std::byte> tail(cache.rules().tail_bytes(n));
      cache.bytes().save_tail(*trunk, n, tail);
      std::vector<std::vector<std::byte>> pages;
      for (std::int64_t i = 0; i < cache.rules().sealed_pages(n); ++i) {
        pages.emplace_back();
        for (const auto piece : cache.bytes().sealed_page(*trunk, i))
          pages.back().insert(pages.back().end(), piece.begin(), piece.end());
        EXPECT_EQ(pages.back().size(), cache.memory().chunk_bytes);
      }
      Cache other(team, s, options_for(2 * more, codec));
      Sequence* restored = other.bytes().restore(n, tail);
      for (std::size_t i = 0; i < pages.size(); ++i)
        other.bytes().fill_page(*restored, static_cast<std::int64_t>(i), pages[i]);
      EXPECT_EQ(other.bytes().digest(*restored), cache.bytes().digest(*trunk)) << what;
      expect_same_bits(fixture::feed(other, restored, t, n, more, 130), expected, what + " restored");
      cache.check_integrity();
      other.check_integrity();
    }
}

// Within its last page a sequence can always be cut, and a tail of fewer tokens saved; further back only while the
// layers with a window have given nothing back.
TEST_F(Classes, CutsWithinTheLastPageAreExact) {
  const CacheShape s = mixed();
  for (const char* codec : {"f16", "rq4"})
    for (const int n : {100, 256, 300, 640, 700}) {
      const Tokens t = fixture::random_tokens(s, n + 100, 16);
      Team team(1);
      Cache cache(team, s, options_for(4 * n + 400, codec, 128, 4, 3));
      for (const int keep : {(n - 1) / 128 * 128 + 1, (n - 1) / 128 * 128 + 17, n}) {
        if (keep > n) continue;
        Sequence* cut = cache.create();
        fixture::feed(cache, cut, t, 0, n, 90);
        std::vector<std::byte> tail(cache.rules().tail_bytes(keep));
        ASSERT_TRUE(cache.rules().keeps_tail(Cache::length(*cut), keep));
        cache.bytes().save_tail(*cut, keep, tail);
        ASSERT_TRUE(cache.rules().can_truncate(*cut, keep));
        cache.truncate(cut, keep);
        Sequence* plain = cache.create();
        fixture::feed(cache, plain, t, 0, keep, 90);
        EXPECT_EQ(cache.bytes().digest(*cut), cache.bytes().digest(*plain)) << codec << " " << n << " to " << keep;
        std::vector<std::byte> same(cache.rules().tail_bytes(keep));
        cache.bytes().save_tail(*plain, keep, same);
        EXPECT_EQ(tail, same);
        expect_same_bits(fixture::feed(cache, cut, t, keep, keep + 60, 60),
                         fixture::feed(cache, plain, t, keep, keep + 60, 1), codec);
        cache.release(cut);
        cache.release(plain);
      }
    }
}

// Nothing was sealed between the two, but a window has moved on.
TEST_F(Classes, ATailIsKeptOnlyWhileEveryWindowStillHasIt) {
  CacheShape s;
  s.layers = {{1, 1, 16, 16}, local(100, 1, 1, 16)};
  Team team(1);
  Cache cache(team, s, options_for(2000, "f16", 1000));
  EXPECT_EQ(cache.rules().sealed_pages(600), 0);
  EXPECT_TRUE(cache.rules().keeps_tail(600, 520));
  EXPECT_FALSE(cache.rules().keeps_tail(600, 300));
  EXPECT_FALSE(cache.rules().keeps_tail(600, 601));
}

TEST_F(Classes, ACutBeyondWhatAWindowKeptIsRefusedAndChangesNothing) {
  CacheShape s;
  s.layers = {{1, 1, 16, 16}, local(100, 1, 1, 16)};
  const Tokens t = fixture::random_tokens(s, 900, 17);
  Team team(1);
  Cache cache(team, s, options_for(2000, "f16"));
  Sequence* sequence = cache.create();
  fixture::feed(cache, sequence, t, 0, 900, kStep);
  const std::uint64_t digest = cache.bytes().digest(*sequence);
  EXPECT_FALSE(cache.rules().can_truncate(*sequence, 300));
  EXPECT_THROW(cache.truncate(sequence, 300), Error);
  EXPECT_EQ(cache.bytes().digest(*sequence), digest);
  cache.truncate(sequence, 0);
  Sequence* plain = cache.create();
  expect_same_bits(fixture::feed(cache, sequence, t, 0, 300, 100), fixture::feed(cache, plain, t, 0, 300, 300),
                   "from empty");
}

// Without local layers in the way, lossless caches can be cut anywhere; while all tokens are in every window, too.
TEST_F(Classes, ShortSequencesAreCutAnywhere) {
  CacheShape s;
  s.layers = {{1, 1, 16, 16}, local(2000, 1, 1, 16)};
  const Tokens t = fixture::random_tokens(s, 900, 18);
  Team team(1);
  Cache cache(team, s, options_for(4000, "f16"));
  for (const int keep : {1, 128, 129, 500, 899}) {
    Sequence* cut = cache.create();
    fixture::feed(cache, cut, t, 0, 900, kStep);
    cache.truncate(cut, keep);
    Sequence* plain = cache.create();
    fixture::feed(cache, plain, t, 0, keep, kStep);
    EXPECT_EQ(cache.bytes().digest(*cut), cache.bytes().digest(*plain)) << keep;
    cache.release(cut);
    cache.release(plain);
  }
}

TEST_F(Classes, LocalLayersTakeMemoryForTheirWindowOnly) {
  CacheShape full = CacheShape::uniform(2, {1, 2, 64, 64});
  CacheShape half = full;
  half.layers[1].window = 512;
  const CacheOptions o = options_for(65536, "rq4", 128, 4, 1);
  const MemoryPlan a = plan_memory(full, o, 1);
  const MemoryPlan b = plan_memory(half, o, 1);
  EXPECT_EQ(b.chunk_bytes * 2, a.chunk_bytes);
  EXPECT_EQ(b.bytes_per_token * 2, a.bytes_per_token);
  EXPECT_EQ(b.k_bits, a.k_bits);
  // From any position 512 tokens reach over at most four pages besides their own; one of these is raw.
  EXPECT_EQ(b.local_bytes, 3 * a.chunk_bytes / 2 + kReadSlack);
  EXPECT_LT(b.sealed_bytes + b.local_bytes, a.sealed_bytes * 52 / 100);
  CacheShape reader = full;
  reader.layers[1].kv_of = 0;
  EXPECT_EQ(plan_memory(reader, o, 1).chunk_bytes, a.chunk_bytes / 2);
}

TEST_F(Classes, ReadBytesCountWhatIsInSight) {
  CacheShape s;
  s.layers = {{1, 1, 64, 64}, local(512, 1, 1, 64)};
  Team team(1);
  Cache cache(team, s, options_for(4096, "f16"));
  Sequence* sequence = cache.create();
  const Tokens t = fixture::random_tokens(s, 2048, 19);
  fixture::feed(cache, sequence, t, 0, 2048, kStep);
  // f16 keys and values of 64: 256 bytes a token. The local layer reads whole sealed pages that it sees a part of.
  EXPECT_EQ(cache.stats(*sequence).kv_bytes_read, 256u * 2048 + 256u * 512);
}

TEST_F(Classes, WrongShapesAreNamed) {
  Team team(1);
  const auto message = [&](const CacheShape& s) -> std::string {
    try {
      Cache cache(team, s, options_for(1000, "f16"));
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  CacheShape s = CacheShape::uniform(3, {1, 2, 32, 32});
  EXPECT_EQ(message(s), "accepted");
  s.layers[1].kv_of = 1;
  EXPECT_NE(message(s).find("kv_of"), std::string::npos);
  s.layers[1].kv_of = 0;
  EXPECT_EQ(message(s), "accepted");
  s.layers[2].kv_of = 1;  // itself a reader
  EXPECT_NE(message(s).find("layer 2 reads layer 1"), std::string::npos);
  s.layers[2].kv_of = 0;
  s.layers[2].window = 64;
  EXPECT_NE(message(s).find("window"), std::string::npos);
  s.layers[2] = {1, 2, 32, 32, -1};
  EXPECT_NE(message(s).find("window"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::kv
