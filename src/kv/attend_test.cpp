// Attention against double, and law 1: the same bits however the tokens arrive.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kv/outputs_fixture.hpp"
#include "simd/isa.hpp"

namespace kvasir::kv {
namespace attend_test {

using fixture::error_against_double;
using fixture::expect_same_bits;
using fixture::Feed;
using fixture::Outputs;
using fixture::Tokens;

std::vector<simd::Isa> isas() {
  std::vector<simd::Isa> all;
  for (int i = 0; i < simd::kIsaCount; ++i)
    if (simd::supported(static_cast<simd::Isa>(i))) all.push_back(static_cast<simd::Isa>(i));
  return all;
}

class Attend : public ::testing::Test {
 protected:
  void TearDown() override { simd::force(best_); }
  simd::Isa best_ = simd::active();
};

CacheOptions options_for(int tokens, const char* codec = "f16", int window = 128, int sinks = 4) {
  CacheOptions o;
  o.k_codec = o.v_codec = codec;
  o.window = window;
  o.sinks = sinks;
  o.max_tokens = tokens;
  return o;
}

Outputs run(const CacheShape& s, const CacheOptions& o, const Tokens& t, int chunk, int threads,
            std::uint64_t* digest) {
  Team team(threads);
  Cache cache(team, s, o);
  Sequence* sequence = cache.create();
  Outputs out = fixture::feed(cache, sequence, t, 0, t.n, chunk);
  if (digest) *digest = cache.bytes().digest(*sequence);
  cache.check_integrity();
  return out;
}

TEST_F(Attend, AgreesWithDouble) {
  for (const auto isa : isas()) {
    simd::force(isa);
    for (const int d : {8, 16, 64, 80, 128}) {
      for (const int g : {1, 3, 4, 8}) {
        const CacheShape s = CacheShape::uniform(1, {2, 2 * g, d, d});
        for (const int n : {1, 127, 128, 129, 300, 1100}) {
          if (n == 1100 && (isa == simd::Isa::kScalar || d * g > 256)) continue;
          const Tokens t = fixture::random_tokens(s, n, static_cast<std::uint64_t>(n + d));
          const auto out = run(s, options_for(n), t, 512, 2, nullptr);
          EXPECT_LT(error_against_double(s, t, out[0], "f16", 0), 1e-6)
              << simd::name(isa) << " d " << d << " g " << g << " n " << n;
        }
      }
    }
  }
}

TEST_F(Attend, EveryPlainCodecAgreesWithDouble) {
  const CacheShape s = CacheShape::uniform(2, {2, 6, 24, 40});  // K and V of different sizes, neither a multiple of 16
  const Tokens t = fixture::random_tokens(s, 500, 3);
  for (const auto isa : isas()) {
    simd::force(isa);
    for (const char* codec : {"f32", "f16", "bf16"}) {
      const auto out = run(s, options_for(500, codec, 0, 0), t, 77, 2, nullptr);
      for (int l = 0; l < 2; ++l)
        EXPECT_LT(error_against_double(s, t, out[static_cast<std::size_t>(l)], codec, l), 1e-6) << codec;
    }
  }
}

TEST_F(Attend, EveryInstructionSetGivesTheBitsOfScalar) {
  const CacheShape s = CacheShape::uniform(1, {2, 6, 80, 72});
  const Tokens t = fixture::random_tokens(s, 400, 9);
  simd::force(simd::Isa::kScalar);
  std::uint64_t digest = 0;
  const auto scalar = run(s, options_for(400), t, 400, 1, &digest);
  for (const auto isa : isas()) {
    simd::force(isa);
    for (const int chunk : {1, 400}) {
      std::uint64_t other = 0;
      expect_same_bits(scalar, run(s, options_for(400), t, chunk, 1, &other), std::string(simd::name(isa)));
      EXPECT_EQ(digest, other) << simd::name(isa);
    }
  }
}

// Chunk 1 goes through the decode kernels, the others through the prefill ones or both.
TEST_F(Attend, ChunksAndThreadsNeverShow) {
  struct Case {
    CacheShape shape;
    int n;
  };
  for (const auto isa : isas()) {
    if (isa == simd::Isa::kScalar) continue;  // see EveryInstructionSetGivesTheBitsOfScalar
    simd::force(isa);
    for (const Case& c :
         {Case{CacheShape::uniform(2, {2, 8, 64, 64}), 1300}, Case{CacheShape::uniform(1, {3, 9, 16, 24}), 1100},
          Case{CacheShape::uniform(1, {1, 8, 128, 128}), 1050}, Case{CacheShape::uniform(1, {2, 2, 80, 80}), 600},
          Case{CacheShape::uniform(1, {1, 11, 8, 8}), 300}}) {
      const Tokens t = fixture::random_tokens(c.shape, c.n, 5);
      const CacheOptions o = options_for(c.n);
      std::uint64_t digest = 0;
      const auto whole = run(c.shape, o, t, c.n, 1, &digest);
      for (const int chunk : {1, 2, 7, 128, 129, c.n}) {
        for (const int threads : {1, 2, 3}) {
          if (threads == 3 && chunk != 7) continue;
          std::uint64_t other = 0;
          const auto out = run(c.shape, o, t, chunk, threads, &other);
          const std::string what =
              std::string(simd::name(isa)) + " chunk " + std::to_string(chunk) + " threads " + std::to_string(threads);
          expect_same_bits(whole, out, what);
          EXPECT_EQ(digest, other) << what;
        }
      }
    }
  }
}

TEST_F(Attend, WindowsAndSinksKeepTheLaw) {
  const CacheShape s = CacheShape::uniform(1, {1, 2, 16, 16});
  const int n = 700;
  const Tokens t = fixture::random_tokens(s, n, 6);
  for (const int window : {0, 1, 128, 200, 300, 5000}) {
    for (const int sinks : {0, 1, 4, 17, 128}) {
      const CacheOptions o = options_for(n, "f16", window, sinks);
      std::uint64_t digest = 0;
      const auto whole = run(s, o, t, n, 1, &digest);
      EXPECT_LT(error_against_double(s, t, whole[0], "f16", 0), 1e-6) << "window " << window << " sinks " << sinks;
      for (const int chunk : {1, 7, 128, 129}) {
        std::uint64_t other = 0;
        const auto out = run(s, o, t, chunk, 2, &other);
        const std::string what =
            "window " + std::to_string(window) + " sinks " + std::to_string(sinks) + " chunk " + std::to_string(chunk);
        expect_same_bits(whole, out, what);
        EXPECT_EQ(digest, other) << what;
      }
    }
  }
}

// Tokens of a run see each other, in layers with and without a window, whatever pages and sinks the run lies in; what
// does not see them has the bits that it has without them.
TEST_F(Attend, RunsThatSeeEachOther) {
  const int n = 700;
  const std::vector<BothWays> both{{2, 40}, {100, 390}, {390, 391}, {500, 640}};
  const std::vector<int> borders{0, 1, 2, 40, 41, 90, 100, 390, 391, 450, 500, 640, 650, 699, n};
  const auto fed = [&](const CacheShape& s, const CacheOptions& o, const Tokens& t, std::span<const int> cuts,
                       std::span<const BothWays> runs, int threads) {
    Team team(threads);
    Cache cache(team, s, o);
    Sequence* sequence = cache.create();
    Outputs all;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::vector<BothWays> inside;
      for (const BothWays& b : runs)
        if (b.begin >= cuts[i] && b.end <= cuts[i + 1]) inside.push_back(b);
      fixture::append(&all, fixture::step(cache, {{sequence, &t, cuts[i], cuts[i + 1] - cuts[i], false, inside}})[0]);
    }
    cache.check_integrity();
    return all;
  };
  for (const auto isa : isas()) {
    simd::force(isa);
    for (const int window : {0, 150})
      for (const int sinks : {0, 4, 17}) {
        CacheShape s = CacheShape::uniform(1, {2, 6, 32, 24});
        s.layers[0].window = window;
        const Tokens t = fixture::random_tokens(s, n, 8);
        const CacheOptions o = options_for(n, "f32", 128, sinks);
        const int whole[] = {0, n};
        const std::string what =
            std::string(simd::name(isa)) + " window " + std::to_string(window) + " sinks " + std::to_string(sinks);
        const Outputs out = fed(s, o, t, whole, both, 1);
        EXPECT_LT(error_against_double(s, t, out[0], "f32", 0, 0, both), 1e-6) << what;
        expect_same_bits(out, fed(s, o, t, borders, both, 2), what);
        // In front of the first run, and where the window of a layer no longer reaches one.
        const Outputs causal = fed(s, o, t, whole, {}, 2);
        const auto row = static_cast<std::size_t>(s.at(0).query_heads * s.at(0).head_dim_v);
        EXPECT_EQ(std::memcmp(out[0].data(), causal[0].data(), 2 * row * sizeof(float)), 0) << what;
        EXPECT_NE(std::memcmp(out[0].data() + 2 * row, causal[0].data() + 2 * row, row * sizeof(float)), 0) << what;
      }
  }
}

// Runs of which that holds in layers with a window alone.
TEST_F(Attend, RunsThatSeeEachOtherInWindows) {
  const int n = 500;
  const std::vector<BothWays> both{{130, 300, true}};
  CacheShape s = CacheShape::uniform(2, {1, 3, 16, 16});
  s.layers[0].window = 200;
  const Tokens t = fixture::random_tokens(s, n, 10);
  Team team(2);
  Cache cache(team, s, options_for(n, "f32", 128, 4));
  const Outputs out = fixture::step(cache, {{cache.create(), &t, 0, n, false, both}})[0];
  EXPECT_LT(error_against_double(s, t, out[0], "f32", 0, 0, both), 1e-6);
  EXPECT_LT(error_against_double(s, t, out[1], "f32", 1), 1e-6);
}

// With packed pages, too: runs read the sealed ones in front of them, and are read sealed.
TEST_F(Attend, RunsThatSeeEachOtherWithPackedPages) {
  const int n = 900;
  const std::vector<BothWays> both{{300, 560}};
  for (const char* codec : {"f16", "int8_token", "rq4"}) {
    const CacheShape s = CacheShape::uniform(1, {2, 4, 64, 64});
    const Tokens t = fixture::random_tokens(s, n, 9);
    std::vector<Outputs> all;
    for (const std::vector<int>& cuts : {std::vector<int>{0, n}, {0, 129, 300, 560, 700, n}, {0, 300, 561, n}}) {
      Team team(2);
      Cache cache(team, s, options_for(n, codec, 128, 4));
      Sequence* sequence = cache.create();
      Outputs out;
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
        const bool has = cuts[i] <= 300 && cuts[i + 1] >= 560;
        fixture::append(
            &out, fixture::step(cache, {{sequence, &t, cuts[i], cuts[i + 1] - cuts[i], false,
                                         has ? std::span<const BothWays>(both) : std::span<const BothWays>()}})[0]);
      }
      cache.check_integrity();
      all.push_back(std::move(out));
    }
    for (const Outputs& out : all) expect_same_bits(all[0], out, codec);
    EXPECT_LT(error_against_double(s, t, all[0][0], "f32", 0, 0, both), std::string(codec) == "f16" ? 2e-3 : 0.1)
        << codec;
  }
}

TEST_F(Attend, NeighboursInABatchNeverShow) {
  const CacheShape s = CacheShape::uniform(2, {2, 6, 32, 32});
  const int n = 420;
  CacheOptions o = options_for(4 * n);
  o.max_sequences = 4;
  std::vector<Tokens> tokens;
  std::vector<Outputs> alone;
  std::vector<std::uint64_t> digests(4);
  for (std::size_t i = 0; i < 4; ++i) {
    tokens.push_back(fixture::random_tokens(s, n, 20 + i));
    alone.push_back(run(s, o, tokens[i], n, 1, &digests[i]));
  }
  for (const int threads : {1, 2, 3}) {
    Team team(threads);
    Cache cache(team, s, o);
    std::vector<Sequence*> sequences;
    std::vector<Outputs> together(4, Outputs(2));
    for (int i = 0; i < 4; ++i) sequences.push_back(cache.create());
    // Each sequence moves at its own pace: decode, small, block-sized and long slices share steps.
    const int pace[] = {1, 5, 130, 200};
    std::vector<int> at(4, 0);
    for (;;) {
      std::vector<Feed> feeds;
      std::vector<std::size_t> who;
      for (std::size_t i = 0; i < 4; ++i) {
        const int count = std::min(pace[(i + static_cast<std::size_t>(at[0])) % 4], n - at[i]);
        if (count == 0) continue;
        feeds.push_back({sequences[i], &tokens[i], at[i], count});
        who.push_back(i);
        at[i] += count;
      }
      if (feeds.empty()) break;
      const auto outs = fixture::step(cache, feeds);
      for (std::size_t f = 0; f < feeds.size(); ++f)
        for (std::size_t l = 0; l < 2; ++l)
          together[who[f]][l].insert(together[who[f]][l].end(), outs[f][l].begin(), outs[f][l].end());
    }
    for (std::size_t i = 0; i < 4; ++i) {
      expect_same_bits(alone[i], together[i], "sequence " + std::to_string(i));
      EXPECT_EQ(digests[i], cache.bytes().digest(*sequences[i]));
    }
    cache.check_integrity();
  }
}

TEST_F(Attend, HugeAndEqualScores) {
  const CacheShape s = CacheShape::uniform(1, {1, 4, 16, 16});
  const int n = 300;
  Tokens huge = fixture::random_tokens(s, n, 30, 2e4f);  // scores up to about 1e4 and -1e4
  Tokens equal = fixture::random_tokens(s, n, 31);
  std::fill(equal.k[0].begin(), equal.k[0].end(), 0.5f);
  for (const int chunk : {1, 300}) {
    const auto a = run(s, options_for(n), huge, chunk, 1, nullptr);
    EXPECT_LT(error_against_double(s, huge, a[0], "f16", 0), 1e-3);  // float32 scores of 1e4 are exact to 1e-3
    const auto b = run(s, options_for(n), equal, chunk, 1, nullptr);
    EXPECT_LT(error_against_double(s, equal, b[0], "f16", 0), 1e-6);
  }
}

// NaN reaches the outputs that see it, no earlier ones with other pages, and no other sequence, not even one that later
// gets the same memory.
TEST_F(Attend, NanStaysInItsSequence) {
  const CacheShape s = CacheShape::uniform(1, {1, 4, 16, 16});
  const int n = 300;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tokens good = fixture::random_tokens(s, n, 40);
  Tokens bad = good;
  std::fill(bad.k[0].begin() + 130 * 16, bad.k[0].end(), nan);
  std::fill(bad.v[0].begin() + 130 * 16, bad.v[0].end(), nan);
  for (const auto isa : isas()) {
    simd::force(isa);
    const auto want = run(s, options_for(n), good, n, 1, nullptr);
    for (const int chunk : {1, 7, 300}) {
      Team team(2);
      Cache cache(team, s, options_for(n));
      Sequence* sequence = cache.create();
      const auto out = fixture::feed(cache, sequence, bad, 0, n, chunk);
      EXPECT_EQ(std::memcmp(out[0].data(), want[0].data(), 128 * 64 * sizeof(float)), 0);
      EXPECT_TRUE(std::isnan(out[0].back()));
      cache.release(sequence);
      sequence = cache.create();
      expect_same_bits(want, fixture::feed(cache, sequence, good, 0, n, chunk), "after NaN");
    }
  }
}

TEST_F(Attend, HalfPrecisionSaturates) {
  const CacheShape s = CacheShape::uniform(1, {1, 1, 8, 8});
  Tokens t = fixture::random_tokens(s, 2, 50);
  std::fill(t.v[0].begin(), t.v[0].end(), 1e6f);
  std::fill(t.v[0].begin() + 8, t.v[0].end(), -1e6f);
  std::fill(t.q[0].begin(), t.q[0].end(), 0.0f);
  const auto out = run(s, options_for(2), t, 1, 1, nullptr);
  EXPECT_EQ(out[0][0], 65504.0f);
  EXPECT_EQ(out[0][8], 0.0f);
}

}  // namespace attend_test
}  // namespace kvasir::kv
