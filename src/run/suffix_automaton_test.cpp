#include "run/suffix_automaton.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "run/text_memory.hpp"

namespace kvasir::run {
namespace {

// Length of the longest end of `text` that also ends earlier.
std::int64_t longest_by_hand(const std::vector<std::int32_t>& text) {
  const auto n = static_cast<std::int64_t>(text.size());
  std::int64_t best = 0;
  for (std::int64_t end = 1; end < n; ++end) {
    std::int64_t equal = 0;
    while (equal < end &&
           text[static_cast<std::size_t>(end - 1 - equal)] == text[static_cast<std::size_t>(n - 1 - equal)])
      ++equal;
    best = std::max(best, equal);
  }
  return best;
}

// Texts of few and of many different tokens, periodic and not.
TEST(SuffixAutomaton, FindsTheLongestEndThatStoodBefore) {
  std::mt19937 random(1);
  for (const int vocab : {1, 2, 3, 10, 1000})
    for (const std::size_t room : {0, 400}) {
      SuffixAutomaton automaton(room);
      for (int round = 0; round < 2; ++round, automaton.clear()) {
        std::vector<std::int32_t> text;
        for (int i = 0; i < 300; ++i) {
          const bool copy = i > 20 && random() % 3 != 0;
          text.push_back(copy ? text[text.size() - 17]
                              : static_cast<std::int32_t>(random() % static_cast<unsigned>(vocab)));
          automaton.push(text.back());
          const auto match = automaton.longest();
          ASSERT_EQ(match.length, longest_by_hand(text)) << vocab << ' ' << i;
          if (match.length == 0) continue;
          // They do stand there, and not at the end itself.
          ASSERT_LT(match.next, static_cast<std::int64_t>(text.size()));
          for (std::int64_t k = 1; k <= match.length; ++k)
            ASSERT_EQ(text[static_cast<std::size_t>(match.next - k)], text[text.size() - static_cast<std::size_t>(k)]);
        }
        EXPECT_EQ(automaton.size(), 300);
      }
    }
}

// A token read again and again is followed where it stood last.
TEST(SuffixAutomaton, PrefersTheLatestPlaceThatItKnows) {
  SuffixAutomaton automaton;
  for (const std::int32_t id : {7, 1, 9, 7}) automaton.push(id);
  EXPECT_EQ(automaton.longest().next, 1);
  for (const std::int32_t id : {2, 9, 7}) automaton.push(id);
  const auto match = automaton.longest();
  EXPECT_EQ(match.length, 2);  // 9 7
  EXPECT_EQ(match.next, 4);
}

TEST(TextMemory, FindsWhatFollowed) {
  TextMemory memory(1 << 12);
  const std::vector<std::int32_t> a = {1, 2, 3, 4, 5, 6, 7}, b = {9, 2, 3, 4, 5, 60, 70};
  memory.add(a);
  memory.add(b);
  const std::vector<std::int32_t> like_a = {0, 1, 2, 3, 4, 5}, like_b = {8, 9, 2, 3, 4, 5}, like_none = {3, 4, 5, 5};
  EXPECT_EQ(memory.find(like_a).equal, 5);
  EXPECT_EQ(memory.find(like_a).followed[0], 6);
  EXPECT_EQ(memory.find(like_a).followed.size(), 2u);  // not into the next text
  EXPECT_EQ(memory.find(like_b).followed[0], 60);
  EXPECT_EQ(memory.find(like_none).equal, 0);
  EXPECT_EQ(memory.find(std::span(like_a).first(2)).equal, 0);
  const std::vector<std::int32_t> end = {4, 5, 6, 7};  // nothing follows
  EXPECT_EQ(memory.find(end).equal, 0);
}

// A conversation sends its beginning again with every turn: it is kept once. What is old goes.
TEST(TextMemory, KeepsBeginningsOnceAndForgetsTheOldest) {
  TextMemory memory(4096);
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < 1000; ++i) text.push_back(i);
  for (int turn = 0; turn < 10; ++turn) {
    text.push_back(5000 + turn);
    memory.add(text);
  }
  EXPECT_LT(memory.tokens(), 1000u + 10 * 100);
  const std::vector<std::int32_t> end = {996, 997, 998, 999};
  EXPECT_EQ(memory.find(end).followed[0], 5000);
  for (std::int32_t t = 0; t < 20; ++t) {
    std::vector<std::int32_t> other;
    for (std::int32_t i = 0; i < 500; ++i) other.push_back(10000 + 500 * t + i);
    memory.add(other);
    EXPECT_LE(memory.tokens(), 4096u + 40);
  }
  EXPECT_EQ(memory.find(end).equal, 0);
}

}  // namespace
}  // namespace kvasir::run
