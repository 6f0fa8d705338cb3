// Steps of a generated token and drafted ones behind it: every token has the bits that it has alone, and what is cut
// off leaves nothing behind.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "kv/cache_fixture.hpp"
#include "kv/page.hpp"
#include "select/spec.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::kv {
namespace drafted_test {

using fixture::Tokens;
using Outputs = std::vector<std::vector<float>>;

constexpr int kPrompt = 250, kEnd = 420, kMost = 9;

LayerShape local(std::int64_t window) { return {1, 2, 32, 32, window}; }

// Every class: all tokens, windows, readers of both, latent ones; groups of one head and of more than a block of rows.
CacheShape classes() {
  CacheShape s{{{1, 2, 32, 32}, local(50), local(200), {2, 2, 32, 32}, {1, 12, 32, 32}}};
  LayerShape reader = s.layers[0];
  reader.kv_of = 0;
  reader.query_heads = 3;
  s.layers.push_back(reader);
  reader = local(200);
  reader.kv_of = 2;
  s.layers.push_back(reader);
  return s;
}
CacheShape latent() {
  return {{{.kv_heads = 1, .query_heads = 5, .head_dim = 64, .head_dim_v = 32, .latent = true},
           {.kv_heads = 1, .query_heads = 2, .head_dim = 64, .head_dim_v = 64, .window = 100, .latent = true}}};
}

// `right` tokens of `a` from `from` on, then tokens of `b`.
Tokens mixture(const CacheShape& s, const Tokens& a, const Tokens& b, int from, int right, int count) {
  Tokens t{.n = count};
  const auto take = [&](const Outputs& x, const Outputs& y, Outputs& to) {
    for (int l = 0; l < s.count(); ++l) {
      const auto layer = static_cast<std::size_t>(l);
      const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(x[layer].size()) / a.n;
      std::vector<float> rows(x[layer].begin() + from * row, x[layer].begin() + (from + right) * row);
      rows.insert(rows.end(), y[layer].begin() + (from + right) * row, y[layer].begin() + (from + count) * row);
      to.push_back(std::move(rows));
    }
  };
  take(a.q, b.q, t.q), take(a.k, b.k, t.k), take(a.v, b.v, t.v);
  return t;
}

struct Case {
  const char* k;
  const char* v;
};

void expect_bits_of_single_steps(const CacheShape& s, const CacheOptions& o, int threads) {
  const Tokens right = fixture::random_tokens(s, kEnd, 3), wrong = fixture::random_tokens(s, kEnd, 4);
  Team team(threads);
  Cache single(team, s, o), drafted(team, s, o);
  ASSERT_TRUE(drafted.rules().can_draft());
  Sequence* const a = single.create();
  Sequence* const b = drafted.create();
  fixture::feed(single, a, right, 0, kPrompt, 64);
  fixture::feed(drafted, b, right, 0, kPrompt, 64);
  Outputs alone;  // by position, all layers behind each other
  const auto flat = [](const Outputs& layers, int row, int rows) {
    std::vector<float> all;
    for (const auto& x : layers) {
      const auto width = static_cast<std::ptrdiff_t>(x.size()) / rows;
      all.insert(all.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
    }
    return all;
  };
  std::vector<std::uint64_t> digests;
  for (int p = kPrompt; p < kEnd; ++p) {
    alone.push_back(flat(fixture::step(single, {{a, &right, p, 1, true}})[0], 0, 1));
    digests.push_back(single.bytes().digest(*a));
  }
  int step = 0;
  for (int p = kPrompt; p < kEnd; ++step) {
    // Of all lengths, all, some or none of them right.
    const int room = static_cast<int>(std::min<std::int64_t>(drafted.rules().draft_room(*b), kEnd - p - 1));
    const int count = 1 + std::min(room, step % kMost), accepted = std::min(count, 1 + step * 5 % (kMost + 2));
    const Tokens tokens = mixture(s, right, wrong, p, accepted, count);
    const Outputs out = fixture::step(drafted, {{b, &tokens, 0, count, true}})[0];
    drafted.truncate(b, p + accepted);
    for (int i = 0; i < accepted; ++i) {
      const std::vector<float> row = flat(out, i, count);
      const auto& want = alone[static_cast<std::size_t>(p - kPrompt + i)];
      ASSERT_EQ(std::memcmp(row.data(), want.data(), want.size() * sizeof(float)), 0)
          << "position " << p << " + " << i << " of " << count;
    }
    p += accepted;
    ASSERT_EQ(drafted.bytes().digest(*b), digests[static_cast<std::size_t>(p - kPrompt - 1)]) << p;
    drafted.check_integrity();
  }
}

CacheOptions options_for(const char* k, const char* v) {
  CacheOptions o;
  o.k_codec = k;
  o.v_codec = v;
  o.max_tokens = 512;
  o.step_tokens = 64;
  return o;
}

TEST(Drafted, TokensHaveTheBitsOfSingleSteps) {
  simd::each_isa([&] {
    for (const auto& [k, v] : {Case{"f16", "f16"},
                               {"f32", "bf16"},
                               {"rq4", "rq4"},
                               {"int2_channel", "int2_token"},
                               {"rq3:unbiased", "int8_token"}}) {
      SCOPED_TRACE(std::string(k) + "/" + v);
      expect_bits_of_single_steps(classes(), options_for(k, v), 2);
    }
  });
}

TEST(Drafted, LatentTokensToo) {
  for (const char* codec : {"f16", "rq4", "int8_token"}) {
    SCOPED_TRACE(codec);
    expect_bits_of_single_steps(latent(), options_for(codec, codec), 2);
  }
}

TEST(Drafted, WhateverTheWindowTheSinksAndTheThreads) {
  for (const char* codec : {"int2_token", "f16"})
    for (const int window : {0, 128, 300})
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(std::string(codec) + " window " + std::to_string(window));
        CacheOptions o = options_for("rq4", codec);
        o.window = window;
        o.sinks = window == 128 ? 20 : 0;
        expect_bits_of_single_steps(classes(), o, threads);
      }
}

// The cache of a model's own block (run/drafters/mtp.cpp): rows of what is right come in steps of several, then one row
// for every draft token, and all of these are cut off.
void expect_drafts_leave_nothing(const CacheShape& s, int threads) {
  const CacheOptions o = options_for("f16", "f16");
  const Tokens right = fixture::random_tokens(s, kEnd, 3), wrong = fixture::random_tokens(s, kEnd, 4);
  Team team(threads);
  Cache plain(team, s, o), drafting(team, s, o);
  Sequence* const a = plain.create();
  Sequence* const b = drafting.create();
  fixture::feed(plain, a, right, 0, kPrompt, 64);
  fixture::feed(drafting, b, right, 0, kPrompt, 64);
  int step = 0;
  for (int p = kPrompt; p < kEnd; ++step) {
    const int count = std::min(1 + step * 7 % 33, kEnd - p);  // as many as states wait at most, and one
    const Outputs wanted = fixture::step(plain, {{a, &right, p, count, true}})[0];
    const Outputs got = fixture::step(drafting, {{b, &right, p, count, true}})[0];
    for (std::size_t l = 0; l < wanted.size(); ++l)
      ASSERT_EQ(std::memcmp(got[l].data(), wanted[l].data(), wanted[l].size() * sizeof(float)), 0) << p << " " << l;
    p += count;
    for (int g = 0; g < step % 17 && p + g < kEnd; ++g) fixture::step(drafting, {{b, &wrong, p + g, 1, true}});
    ASSERT_TRUE(drafting.rules().can_truncate(*b, p)) << p;
    drafting.truncate(b, p);
    ASSERT_EQ(drafting.bytes().digest(*b), plain.bytes().digest(*a)) << p;
    drafting.check_integrity();
  }
}

TEST(Drafted, MtpLeavesNothingOfItsDrafts) {
  simd::each_isa([&] {
    SCOPED_TRACE(simd::name(simd::active()));
    for (const LayerShape& layer : {LayerShape{1, 2, 32, 32}, LayerShape{2, 8, 64, 64}, latent().layers[0]})
      for (const int threads : {1, 3}) expect_drafts_leave_nothing({{layer}}, threads);
  });
}

// A selector is asked for every token.
TEST(Drafted, SelectorsChooseAsForSingleSteps) {
  CacheOptions o = options_for("rq4", "rq4");
  o.selector = select::read_selector("quest:block=16:budget=128:local=16", "test");
  o.window = 0;
  expect_bits_of_single_steps({{{1, 2, 32, 32}, local(50)}}, o, 2);
}

TEST(Drafted, RoomEndsWithThePage) {
  const CacheShape s{{{1, 2, 32, 32}}};
  const Tokens t = fixture::random_tokens(s, 300, 3);
  Team team(1);
  Cache cache(team, s, options_for("f16", "f16"));
  Sequence* const sequence = cache.create();
  EXPECT_EQ(cache.rules().draft_room(*sequence), kPageTokens - 1);
  for (const auto& [n, room] : {std::pair{127, 0}, {128, 127}, {300, 383 - 300}}) {
    fixture::feed(cache, sequence, t, static_cast<int>(Cache::length(*sequence)), n, 64);
    EXPECT_EQ(cache.rules().draft_room(*sequence), room) << n;
  }
}

}  // namespace drafted_test
}  // namespace kvasir::kv
