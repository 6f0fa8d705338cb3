// Known texts that are found at another place of a prompt.
#include "store/content_index.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace kvasir::store {
namespace {

using Ids = std::vector<std::int32_t>;

Ids random_ids(int n, unsigned seed, int vocab = 50000) {
  std::mt19937 rng(seed);
  Ids ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(rng() % static_cast<unsigned>(vocab)));
  return ids;
}

std::vector<Key> keys_of(const Ids& ids, const char* tenant = "") {
  std::vector<Key> keys;
  Key key = root_key({}, tenant);
  for (std::size_t i = 0; i + 128 <= ids.size(); i += 128)
    keys.push_back(key = chunk_key(key, std::span(ids).subspan(i, 128)));
  return keys;
}

Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::int64_t size(const Ids& ids) { return static_cast<std::int64_t>(ids.size()); }

TEST(ContentIndex, TheRollingHashIsThatOfTheWindow) {
  const Ids ids = random_ids(300, 1);
  RollingHash rolled(64);
  for (std::size_t t = 0; t < 64; ++t) rolled.add(ids[t]);
  for (std::size_t t = 0; t + 64 < ids.size(); ++t) {
    RollingHash fresh(64);
    for (std::size_t i = t; i < t + 64; ++i) fresh.add(ids[i]);
    ASSERT_EQ(rolled.value(), fresh.value()) << t;
    rolled.roll(ids[t], ids[t + 64]);
  }
}

TEST(ContentIndex, CutsKeepTheirBoundsAndFollowTheContent) {
  const Ids passage = random_ids(4000, 2);
  const auto check = [](const std::vector<std::int64_t>& cuts, std::int64_t n) {
    EXPECT_EQ(cuts.front(), 0);
    EXPECT_EQ(cuts.back(), n);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      EXPECT_LE(cuts[i + 1] - cuts[i], kMostPiece);
      if (i + 2 < cuts.size()) {
        EXPECT_GE(cuts[i + 1] - cuts[i], kLeastPiece);
      }
    }
  };
  const std::vector<std::int64_t> alone = cut_pieces(passage);
  check(alone, size(passage));
  const std::vector<std::int64_t> moved = cut_pieces(random_ids(777, 3) + passage);
  check(moved, size(passage) + 777);
  const std::set<std::int64_t> there(moved.begin(), moved.end());
  std::int64_t common = 0;
  for (const std::int64_t cut : alone) common += there.count(cut + 777) > 0 ? 1 : 0;
  EXPECT_GE(common, static_cast<std::int64_t>(alone.size()) * 3 / 4);  // few before they agree, and then all
  const std::int64_t borders[] = {10, 500, 501};
  const std::vector<std::int64_t> with = cut_pieces(passage, borders);
  for (const std::int64_t b : borders) EXPECT_TRUE(std::find(with.begin(), with.end(), b) != with.end()) << b;
}

TEST(ContentIndex, PassagesAreFoundAtEveryOffset) {
  const Ids text = random_ids(128 * 12, 4);
  ContentIndex pieces;
  pieces.add("", text, keys_of(text));
  for (const int in_front : {0, 1, 63, 64, 127, 128, 129, 500})
    for (const std::int64_t begin : {4, 5, 200, 650}) {
      const std::int64_t end = begin + 500;
      const Ids prompt = random_ids(in_front, 5) + Ids(text.begin() + begin, text.begin() + end) + random_ids(90, 6);
      const auto matches = pieces.find("", prompt, {0, size(prompt), 4});
      ASSERT_EQ(matches.size(), 1u);
      EXPECT_EQ(matches[0].begin, in_front);
      EXPECT_EQ(matches[0].end, in_front + 500);
      EXPECT_EQ(matches[0].made_at, begin);
    }
}

TEST(ContentIndex, FirstTokensWithoutPagesAreLeftOut) {
  const Ids text = random_ids(512, 7);
  ContentIndex pieces;
  pieces.add("", text, keys_of(text));
  const auto matches = pieces.find("", text, {0, 512, 4});
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].begin, 4);
  EXPECT_EQ(matches[0].made_at, 4);
  EXPECT_EQ(matches[0].end, 512);
}

TEST(ContentIndex, ShuffledDocumentsAreFoundWhole) {
  std::vector<Ids> documents;
  for (unsigned i = 0; i < 8; ++i) documents.push_back(random_ids(500, 100 + i));
  Ids source = random_ids(30, 8), prompt = random_ids(41, 9);
  for (const Ids& d : documents) source = source + d;
  for (const int i : {5, 2, 7, 0, 3, 6, 1, 4}) prompt = prompt + documents[static_cast<std::size_t>(i)];
  prompt = prompt + random_ids(20, 10);
  ContentIndex pieces;
  pieces.add("", source, keys_of(source));
  std::int64_t found = 0;
  std::int64_t last = 0;
  for (const auto& m : pieces.find("", prompt, {0, size(prompt), 4})) {
    EXPECT_GE(m.begin, last);
    last = m.end;
    found += m.end - m.begin;
    for (std::int64_t t = m.begin; t < m.end; ++t)
      ASSERT_EQ(prompt[static_cast<std::size_t>(t)], m.text->ids[static_cast<std::size_t>(m.made_at + t - m.begin)]);
  }
  EXPECT_GE(found, 8 * 500 - 128);  // the last page is not whole
}

TEST(ContentIndex, TenantsDoNotMeet) {
  const Ids text = random_ids(512, 11);
  ContentIndex pieces;
  pieces.add("a", text, keys_of(text, "a"));
  EXPECT_TRUE(pieces.find("b", text, {0, 512, 0}).empty());
  EXPECT_TRUE(pieces.find("", text, {0, 512, 0}).empty());
  EXPECT_EQ(pieces.find("a", text, {0, 512, 0}).size(), 1u);
}

TEST(ContentIndex, WhatIsKnownIsNotKeptTwiceAndTheOldestGoesFirst) {
  ContentIndex pieces(128 * 10);
  const Ids first = random_ids(128 * 4, 12);
  const Ids longer = first + random_ids(128 * 2, 13);
  pieces.add("", first, keys_of(first));
  pieces.add("", first, keys_of(first));
  EXPECT_EQ(pieces.tokens(), 128u * 4);
  pieces.add("", longer, keys_of(longer));
  EXPECT_EQ(pieces.tokens(), 128u * 6);
  pieces.add("", first, keys_of(first));  // a part of what is known
  EXPECT_EQ(pieces.tokens(), 128u * 6);
  const Ids other = random_ids(128 * 4, 14);
  pieces.add("", other, keys_of(other));
  EXPECT_EQ(pieces.find("", longer, {0, size(longer), 0}).size(), 1u);  // used last
  const Ids third = random_ids(128 * 2, 15);
  pieces.add("", third, keys_of(third));
  EXPECT_LE(pieces.tokens(), 128u * 10);
  EXPECT_TRUE(pieces.find("", other, {0, size(other), 0}).empty());
  const auto match = pieces.find("", third, {0, size(third), 0});
  ASSERT_EQ(match.size(), 1u);
  pieces.forget(match[0].text);
  EXPECT_TRUE(pieces.find("", third, {0, size(third), 0}).empty());
}

// Against a search that compares every pair of places.
TEST(ContentIndex, RandomPromptsAgainstASlowSearch) {
  std::mt19937 rng(16);
  for (unsigned round = 0; round < 20; ++round) {
    const Ids text = random_ids(128 * 6, 200 + round, round % 2 == 0 ? 3 : 50000);  // few ids: many near misses
    ContentIndex pieces;
    pieces.add("", text, keys_of(text));
    Ids prompt;
    for (int i = 0; i < 6; ++i) {
      const auto from = static_cast<std::ptrdiff_t>(rng() % 400);
      prompt = prompt + Ids(text.begin() + from, text.begin() + from + static_cast<std::ptrdiff_t>(rng() % 360)) +
               random_ids(static_cast<int>(rng() % 20), static_cast<unsigned>(rng()));
    }
    std::int64_t last = 0;
    for (const auto& m : pieces.find("", prompt, {0, size(prompt), 4})) {
      EXPECT_GE(m.begin, last);
      EXPECT_GE(m.made_at, 4);
      EXPECT_GE(m.end - m.begin, kLeastPiece);
      last = m.end;
      for (std::int64_t t = m.begin; t < m.end; ++t)
        ASSERT_EQ(prompt[static_cast<std::size_t>(t)], text[static_cast<std::size_t>(m.made_at + t - m.begin)]);
      // It is as long as it can be.
      const auto next = static_cast<std::size_t>(m.made_at + m.end - m.begin);
      EXPECT_TRUE(m.end == size(prompt) || next == text.size() ||
                  prompt[static_cast<std::size_t>(m.end)] != text[next]);
    }
  }
}

}  // namespace
}  // namespace kvasir::store
