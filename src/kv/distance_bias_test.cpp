// Attention with learned biases by distance and a sink of every row (Inkling 2), against double on every instruction
// set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "kv/outputs_fixture.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::kv {
namespace {

using fixture::Tokens;

// Biases that a row's numbers make of profiles by distance, and sinks of every row by itself.
TEST(DistanceBiases, AndSinksOfRowsAreThoseOfDouble) {
  constexpr int kTokens = 300, kHeads = 6, kGroup = 3, kWide = 16, kWidth = 3;
  const simd::KeepIsa keep;
  for (const auto isa : simd::kIsas) {
    if (!simd::supported(isa)) continue;
    simd::force(isa);
    for (const auto& [window, extent] : {std::pair<std::int64_t, std::int64_t>{0, 40}, {0, 1000}, {150, 150}}) {
      CacheShape s = CacheShape::uniform(1, {kHeads / kGroup, kHeads, kWide, kWide});
      s.layers[0].window = window;
      const Tokens t = fixture::random_tokens(s, kTokens, 77);
      std::vector<float> own(kTokens * kHeads * kWidth), profiles(static_cast<std::size_t>(kWidth * extent)),
          sinks(kTokens * kHeads);
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = fixture::noise(1, i);
      for (std::size_t i = 0; i < profiles.size(); ++i) profiles[i] = 2 * fixture::noise(2, i);
      for (std::size_t i = 0; i < sinks.size(); ++i) sinks[i] = 3 * fixture::noise(3, i);
      const float scale = fixture::default_scale(s);
      const auto fed = [&](int chunk, int threads, bool decode) {
        Team team(threads);
        Cache cache(team, s, {.k_codec = "f32", .v_codec = "f32", .window = 128, .sinks = 4, .max_tokens = kTokens});
        Sequence* sequence = cache.create();
        std::vector<float> out(kTokens * kHeads * kWide);
        for (int at = 0; at < kTokens; at += chunk) {
          const int n = std::min(chunk, kTokens - at);
          const Slice slice{sequence, 0, n, decode};
          cache.begin({&slice, 1});
          cache.attend(0, t.q[0].data() + at * kHeads * kWide, t.k[0].data() + at * kHeads / kGroup * kWide,
                       t.v[0].data() + at * kHeads / kGroup * kWide, out.data() + at * kHeads * kWide,
                       {.scale = scale,
                        .distances = {own.data() + at * kHeads * kWidth, profiles.data(), kWidth, extent},
                        .row_sinks = sinks.data() + at * kHeads});
          cache.commit();
        }
        return out;
      };
      const std::vector<float> got = fed(kTokens, 2, false);
      double error = 0, norm = 0;
      for (int p = 0; p < kTokens; ++p)
        for (int h = 0; h < kHeads; ++h) {
          const std::int64_t first = window > 0 ? std::max<std::int64_t>(0, p + 1 - window) : 0;
          double sum = std::exp(static_cast<double>(sinks[static_cast<std::size_t>(p * kHeads + h)]));
          double want[kWide] = {};
          for (std::int64_t j = first; j <= p; ++j) {
            double score = 0;
            const std::int64_t kv = (j * (kHeads / kGroup) + h / kGroup) * kWide;
            for (int i = 0; i < kWide; ++i)
              score += static_cast<double>(t.q[0][static_cast<std::size_t>((p * kHeads + h) * kWide + i)]) *
                       static_cast<double>(t.k[0][static_cast<std::size_t>(kv + i)]);
            score *= static_cast<double>(scale);
            for (int i = 0; i < kWidth && p - j < extent; ++i)
              score += static_cast<double>(own[static_cast<std::size_t>((p * kHeads + h) * kWidth + i)]) *
                       static_cast<double>(profiles[static_cast<std::size_t>(i * extent + p - j)]);
            sum += std::exp(score);
            for (int i = 0; i < kWide; ++i)
              want[i] += std::exp(score) * static_cast<double>(t.v[0][static_cast<std::size_t>(kv + i)]);
          }
          for (int i = 0; i < kWide; ++i) {
            const double y = want[i] / sum;
            error += std::pow(static_cast<double>(got[static_cast<std::size_t>((p * kHeads + h) * kWide + i)]) - y, 2);
            norm += y * y;
          }
        }
      EXPECT_LT(std::sqrt(error / norm), 1e-6) << simd::name(isa) << " window " << window << " extent " << extent;
      EXPECT_EQ(fed(7, 1, false), got) << simd::name(isa);
      EXPECT_EQ(fed(130, 3, false), got) << simd::name(isa);
      EXPECT_EQ(fed(1, 2, true), got) << simd::name(isa);
    }
  }
}

// Sequences that have more than a group of pages in common have their own biases all the same.
TEST(DistanceBiases, ArePerSequenceWherePagesAreShared) {
  constexpr int kShared = 1300, kHeads = 4, kWide = 16, kWidth = 3, kExtent = 2000;
  const CacheShape s = CacheShape::uniform(1, {kHeads / 2, kHeads, kWide, kWide});
  const Tokens t = fixture::random_tokens(s, kShared + 2, 5);
  std::vector<float> own((kShared + 2) * kHeads * kWidth), profiles(kWidth * kExtent), sinks((kShared + 2) * kHeads);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = fixture::noise(4, i);
  for (std::size_t i = 0; i < profiles.size(); ++i) profiles[i] = 2 * fixture::noise(5, i);
  for (std::size_t i = 0; i < sinks.size(); ++i) sinks[i] = 3 * fixture::noise(6, i);
  Team team(2);
  CacheOptions options{.k_codec = "f16", .v_codec = "f16", .window = 128, .sinks = 4, .max_tokens = 4096};
  options.max_sequences = 4;
  Cache cache(team, s, options);
  // Rows [at, at + n) of all arrays, as the next tokens of the slices.
  const auto step = [&](std::span<const Slice> slices, int at, int n) {
    std::vector<float> out(static_cast<std::size_t>(n * kHeads * kWide));
    cache.begin(slices);
    cache.attend(0, t.q[0].data() + at * kHeads * kWide, t.k[0].data() + at * kHeads / 2 * kWide,
                 t.v[0].data() + at * kHeads / 2 * kWide, out.data(),
                 {.scale = fixture::default_scale(s),
                  .distances = {own.data() + at * kHeads * kWidth, profiles.data(), kWidth, kExtent},
                  .row_sinks = sinks.data() + at * kHeads});
    cache.commit();
    return out;
  };
  Sequence* first = cache.create();
  for (int at = 0; at < kShared; at += 100) {
    const Slice slice{first, 0, 100, false};
    step({&slice, 1}, at, 100);
  }
  Sequence* second = cache.fork(*first);
  Sequence* alone[] = {cache.fork(*first), cache.fork(*first)};
  const Slice both[] = {{first, 0, 1, true}, {second, 1, 1, true}};
  const std::vector<float> together = step(both, kShared, 2);
  for (int i = 0; i < 2; ++i) {
    const Slice slice{alone[i], 0, 1, true};
    const std::vector<float> want = step({&slice, 1}, kShared + i, 1);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), together.begin() + i * kHeads * kWide)) << i;
  }
}

}  // namespace
}  // namespace kvasir::kv
