// Which groups of pages sequences have in common, and that folding them together changes no bit.
#include "kv/shared_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kv/outputs_fixture.hpp"
#include "simd/emulated_amx_fixture.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::kv {
namespace {

using fixture::expect_same_bits;
using fixture::Feed;
using fixture::Outputs;
using fixture::Tokens;

// Tables of sequences that branch off from one another at random pages.
std::vector<std::vector<std::int32_t>> branches(std::mt19937& random, int count) {
  std::vector<std::vector<std::int32_t>> all;
  std::int32_t next = 1000;
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> pages;
    if (i > 0 && random() % 4 != 0) {
      const auto& from = all[random() % all.size()];
      pages.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(random() % (from.size() + 1)));
    }
    const std::size_t more = random() % 40;
    for (std::size_t k = 0; k < more; ++k) pages.push_back(next++);
    all.push_back(std::move(pages));
  }
  return all;
}

TEST(SharedGroups, SetsAreOfEqualPagesAndLeaveFewAlone) {
  std::mt19937 random(4);
  SharedGroups shared;
  shared.reserve(20, 64);
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    const auto pages = branches(random, 1 + static_cast<int>(random() % 20));
    std::vector<SharedGroups::Table> tables;
    for (const auto& p : pages)
      tables.push_back(
          {p.data(), static_cast<int>(p.size() / kGroupPages), 1 + static_cast<int>(random() % (kSharedRows / 2 + 2))});
    shared.find(tables);
    for (std::size_t i = 0; i < tables.size(); ++i)
      for (int g = 0; g < tables[i].groups + 2; ++g) {
        const auto set = shared.with(i, g);
        if (set.empty()) continue;
        ++found;
        ASSERT_LT(g, tables[i].groups);
        ASSERT_GE(set.size(), 2u);
        ASSERT_EQ(std::count(set.begin(), set.end(), static_cast<int>(i)), 1);
        ASSERT_EQ(std::set<int>(set.begin(), set.end()).size(), set.size());
        int rows = 0;
        for (const int other : set) {
          const auto o = static_cast<std::size_t>(other);
          ASSERT_LT(g, tables[o].groups);
          rows += tables[o].rows;
          ASSERT_TRUE(std::equal(pages[i].begin() + g * kGroupPages, pages[i].begin() + (g + 1) * kGroupPages,
                                 pages[o].begin() + g * kGroupPages));
          ASSERT_EQ(shared.with(o, g).data(), set.data());
        }
        ASSERT_LE(rows, kSharedRows);
      }
    // Two that have a beginning and room in common are not both left alone.
    for (std::size_t i = 0; i < tables.size(); ++i)
      for (std::size_t k = 0; k < i; ++k) {
        if (tables[i].rows > kSharedRows / 4 || tables[k].rows > kSharedRows / 4) continue;
        for (int g = 0; g < std::min(tables[i].groups, tables[k].groups); ++g) {
          if (!std::equal(pages[i].begin(), pages[i].begin() + (g + 1) * kGroupPages, pages[k].begin())) break;
          ASSERT_FALSE(shared.with(i, g).empty() && shared.with(k, g).empty()) << i << " " << k << " group " << g;
        }
      }
  }
  EXPECT_GT(found, 1000);
}

TEST(SharedGroups, WorkIsSpreadOverTheirItems) {
  std::vector<std::int32_t> pages(64);
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int32_t>(i);
  const std::vector<SharedGroups::Table> tables(4, {pages.data(), 8, 3});
  SharedGroups shared;
  shared.reserve(4, 8);
  shared.find(tables);
  ASSERT_TRUE(shared.any());
  int first[4] = {};
  for (int g = 0; g < 8; ++g) {
    ASSERT_EQ(shared.with(0, g).size(), 4u);
    ++first[shared.with(0, g)[0]];
  }
  for (const int n : first) EXPECT_EQ(n, 2);
  shared.clear();
  EXPECT_TRUE(shared.with(0, 0).empty());
}

// A text, forks of it that go on differently, and one that has nothing in common: each alone and all in one step.
// `counted()` is read around the steps, of all together and of each alone: what it went up by.
struct Counted {
  long together = 0, alone = 0;
};
Counted expect_no_trace(
    const CacheShape& shape, const char* codec, int threads, int drafted, long (*counted)() = [] { return 0l; }) {
  Counted count;
  constexpr int kTogether = 5, kNew = 6;
  constexpr int kCommon[kTogether] = {2200, 2200, 1300, 2200, 0};
  CacheOptions o;
  o.k_codec = o.v_codec = codec;
  o.max_tokens = 16384;
  o.max_sequences = 2 * kTogether + 2;
  Team team(threads);
  Cache cache(team, shape, o);
  std::vector<Tokens> tokens;
  const Tokens text = fixture::random_tokens(shape, 2200, 1);
  Sequence* const parent = cache.create();
  fixture::feed(cache, parent, text, 0, 1300, 512);
  Sequence* const shorter = cache.fork(*parent);
  fixture::feed(cache, parent, text, 1300, 2200, 512);
  std::vector<Sequence*> alone, together;
  for (int i = 0; i < kTogether; ++i) {
    tokens.push_back(fixture::random_tokens(shape, 400 + kNew * drafted, 10 + static_cast<std::uint64_t>(i)));
    Sequence* const s = kCommon[i] == 0 ? cache.create() : cache.fork(kCommon[i] == 1300 ? *shorter : *parent);
    if (i != 1) fixture::feed(cache, s, tokens.back(), 0, 37 * i, 512);
    alone.push_back(s);
    together.push_back(cache.fork(*s));
  }
  for (int n = 0; n < kNew; ++n) {
    std::vector<Feed> feeds;
    for (int i = 0; i < kTogether; ++i)
      feeds.push_back({together[static_cast<std::size_t>(i)], &tokens[static_cast<std::size_t>(i)], 200 + n * drafted,
                       drafted, true});
    const long before = counted();
    const auto outs = fixture::step(cache, feeds);
    count.together += counted() - before;
    const long between = counted();
    for (int i = 0; i < kTogether; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto own = fixture::step(cache, {{alone[at], &tokens[at], 200 + n * drafted, drafted, true}});
      expect_same_bits(own[0], outs[at], std::string(codec) + " sequence " + std::to_string(i));
    }
    count.alone += counted() - between;
  }
  for (std::size_t i = 0; i < alone.size(); ++i)
    EXPECT_EQ(cache.bytes().digest(*alone[i]), cache.bytes().digest(*together[i]));
  cache.check_integrity();
  return count;
}

TEST(SharedGroups, NeighboursDoNotShow) {
  const CacheShape plain = CacheShape::uniform(2, {2, 6, 64, 64});
  for (const char* codec : {"f16", "f32", "rq4", "rq3", "int8_token", "int4_channel"})
    for (const int threads : {1, 2}) expect_no_trace(plain, codec, threads, 1);
  expect_no_trace(plain, "rq4", 2, 2);                                    // drafted tokens
  expect_no_trace(CacheShape::uniform(1, {1, 20, 64, 64}), "rq4", 2, 1);  // too many rows
  expect_no_trace(CacheShape::uniform(1, {3, 3, 80, 48}), "rq3", 2, 1);
}

#if defined(__x86_64__) && defined(__linux__)

// Sixteen rows of several sequences go to tiles.
TEST(SharedGroups, TilesDoNotShow) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const simd::UsableTiles usable;
  const simd::KeepIsa keep;
  simd::force(simd::Isa::kAvx512Amx);
  const Counted count =
      expect_no_trace(CacheShape::uniform(1, {1, 5, 64, 64}), "rq4", 1, 1, simd::UsableTiles::executed);
  EXPECT_EQ(count.alone, 0);  // five rows
  EXPECT_EQ(count.together > 0, !simd::UsableTiles::by_processor());
}

#endif

}  // namespace
}  // namespace kvasir::kv
