// Rotated codecs by the matrix unit of AMX (kv/families/rotated/tiles.hpp): the bits of the vectors, on every page and
// in a cache; emulated where there is none.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernel/ops.hpp"
#include "kv/cache_fixture.hpp"
#include "kv/codec_fixture.hpp"
#include "simd/emulated_amx_fixture.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::kv {
namespace rotated_tiles_test {

#if defined(__x86_64__) && defined(__linux__)

using namespace codec_fixture;
using simd::UsableTiles;

// What a set computes for `g` rows over three pages, of which the first and the last are asked for in part.
std::vector<float> products(const Subject& sealed, simd::Isa isa, int g, const std::vector<float>& x) {
  simd::force(isa);
  const Subject s = sealed.on_active_isa();
  const std::byte* const block = sealed.page->data();
  const PageRef pages[] = {{block, 19, 128, kPageTokens}, {block, 0, 128, kPageTokens}, {block, 0, 77, kPageTokens}};
  constexpr int kStride = 3 * kPageTokens;
  std::vector<float> out;
  if (s.side == Side::kKeys) {
    std::vector<float> scores(static_cast<std::size_t>(g * kStride), -7.0f);
    s.codec->dots(s.head(), pages, 3, x.data(), g, scores.data(), kStride);
    for (int r = 0; r < g; ++r)
      for (int p = 0; p < 3; ++p)
        for (int t = pages[p].begin; t < pages[p].end; ++t)
          out.push_back(scores[static_cast<std::size_t>(r * kStride + p * kPageTokens + t)]);
  } else {
    const int pitch = kernel::out_pitch(s.d);
    std::vector<float> sums(static_cast<std::size_t>(3 * g * pitch), -7.0f);
    s.codec->accumulate(s.head(), pages, 3, x.data(), kStride, g, sums.data(), pitch);
    for (int r = 0; r < 3 * g; ++r)
      for (int c = 0; c < s.d; ++c) out.push_back(sums[static_cast<std::size_t>(r * pitch + c)]);
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_bits_of_vectors(const std::string& codec, int d, Side side) {
  SCOPED_TRACE(codec + " of " + std::to_string(d) + (side == Side::kKeys ? ", keys" : ", values"));
  simd::force(simd::Isa::kAvx512Vnni);
  Subject s(codec, d, side);
  s.seal(make_rows(d, 5), 0);
  for (const int g : {15, 16, 33, 96}) {
    if (d == 1024 && g == 96) continue;  // takes long when emulated
    const int width = side == Side::kKeys ? d : 3 * kPageTokens;
    auto x = gaussian(static_cast<std::size_t>(g * width), 11);
    if (side == Side::kValues) {
      for (float& w : x) w = std::exp(3 * (w - 3));
      for (int r = 0; r < g; ++r)  // weights of tokens that are not asked for
        for (int t = 0; t < width; ++t)
          if (t < 19 || t >= 2 * kPageTokens + 77) x[static_cast<std::size_t>(r * width + t)] = 0;
    }
    std::fill_n(x.begin(), width, 0.0f);                // a row that has no scale
    x[static_cast<std::size_t>(2 * width)] = INFINITY;  // one that has none to give
    x[static_cast<std::size_t>(3 * width + 31)] = 4e4;  // and one that is nothing beside a number
    const long before = UsableTiles::executed();
    const std::vector<float> want = products(s, simd::Isa::kAvx512Vnni, g, x);
    ASSERT_EQ(UsableTiles::executed(), before);
    EXPECT_TRUE(same_bits(products(s, simd::Isa::kAvx512Amx, g, x), want)) << "rows " << g;
    const bool expected = g >= 16 && !UsableTiles::by_processor();  // with fewer rows by vectors
    EXPECT_EQ(UsableTiles::executed() > before, expected) << "rows " << g;
  }
}

// Prompts in chunks, generated tokens and a second sequence in one step.
void expect_cache_of_vectors(const char* k_codec, const char* v_codec) {
  SCOPED_TRACE(std::string(k_codec) + "/" + v_codec);
  const CacheShape shape = CacheShape::uniform(2, {.kv_heads = 2, .query_heads = 6, .head_dim = 64, .head_dim_v = 64});
  const fixture::Tokens tokens = fixture::random_tokens(shape, 600, 1);
  const auto run = [&](simd::Isa isa, int chunk) {
    simd::force(isa);
    Team team(1);  // instructions are counted by thread
    CacheOptions o;
    o.k_codec = k_codec;
    o.v_codec = v_codec;
    o.max_tokens = 2048;
    o.max_sequences = 2;
    Cache cache(team, shape, o);
    Sequence* s = cache.create();
    auto out = fixture::feed(cache, s, tokens, 0, 500, chunk);
    Sequence* fork = cache.fork(*s);
    for (Sequence* each : {s, fork}) {
      const auto more = fixture::feed(cache, each, tokens, 500, 600, 64);
      out.insert(out.end(), more.begin(), more.end());
    }
    return std::make_pair(out, cache.bytes().digest(*fork));
  };
  const auto want = run(simd::Isa::kAvx512Vnni, 500);
  for (const int chunk : {500, 130, 64}) {
    const long before = UsableTiles::executed();
    EXPECT_EQ(run(simd::Isa::kAvx512Amx, chunk), want) << "chunks of " << chunk;
    EXPECT_EQ(UsableTiles::executed() > before, !UsableTiles::by_processor()) << "chunks of " << chunk;
  }
}

TEST(RotatedTiles, PagesGiveTheBitsOfVectors) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const UsableTiles usable;
  const simd::KeepIsa keep;
  for (const char* codec : {"rq2", "rq3", "rq4", "rq5", "rq8"})
    for (const int d : {16, 64, 80, 128, 192, 1024})
      for (const Side side : {Side::kKeys, Side::kValues}) expect_bits_of_vectors(codec, d, side);
}

TEST(RotatedTiles, ACacheGivesTheBitsOfVectors) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const UsableTiles usable;
  const simd::KeepIsa keep;
  expect_cache_of_vectors("rq5", "rq4");
}

#endif

}  // namespace rotated_tiles_test
}  // namespace kvasir::kv
