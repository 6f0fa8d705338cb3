#include "serve/turn_memory.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace kvasir::serve {
namespace {

TurnPlace place(std::uint64_t n, std::uint64_t end = 1) {
  store::Key key;
  std::memcpy(key.bytes.data(), &n, sizeof(n));
  return {.key = key, .end = end, .last = 7};
}

std::vector<std::int32_t> ids(std::size_t count, std::int32_t first = 0) {
  std::vector<std::int32_t> list(count);
  std::iota(list.begin(), list.end(), first);
  return list;
}

constexpr std::int64_t bytes_of(std::int64_t tokens) { return TurnMemory::kAnswerBytes + 4 * tokens; }

TEST(TurnMemory, KeepsWhatFits) {
  TurnMemory memory(3 * bytes_of(10));
  for (std::uint64_t i = 0; i < 3; ++i) memory.remember("a", place(i), ids(10, static_cast<std::int32_t>(i)));
  EXPECT_EQ(memory.bytes(), 3 * bytes_of(10));
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto found = memory.find(place(i).key);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0]->ids, ids(10, static_cast<std::int32_t>(i)));
    EXPECT_EQ(found[0]->last, 7);
  }
  EXPECT_TRUE(memory.find(place(3).key).empty());
}

TEST(TurnMemory, DropsWhatWasUsedLongestAgo) {
  TurnMemory memory(3 * bytes_of(10));
  for (std::uint64_t i = 0; i < 3; ++i) memory.remember("a", place(i), ids(10));
  memory.use(place(0).key, memory.find(place(0).key).at(0));
  memory.remember("a", place(1), ids(10));  // the same again: used
  memory.remember("b", place(3), ids(10));
  EXPECT_TRUE(memory.find(place(2).key).empty());
  for (const std::uint64_t i : {0u, 1u, 3u}) EXPECT_EQ(memory.find(place(i).key).size(), 1u) << i;
  // A large one takes the place of several.
  memory.remember("a", place(4), ids(100));
  EXPECT_EQ(memory.answers(), 1);
  EXPECT_EQ(memory.bytes(), bytes_of(100));
  // One larger than all is not taken, and nothing is lost for it.
  memory.remember("a", place(5), ids(1000));
  EXPECT_EQ(memory.find(place(4).key).size(), 1u);
  EXPECT_TRUE(memory.find(place(5).key).empty());
}

TEST(TurnMemory, BytesAreExactWhateverHappens) {
  TurnMemory memory(20 * bytes_of(30));
  std::uint32_t state = 1;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525u + 1013904223u;
    const std::uint64_t where = (state >> 8) % 40;
    const std::size_t count = (state >> 16) % 60;
    memory.remember("a", place(where), ids(count, static_cast<std::int32_t>(state >> 28)));
    ASSERT_LE(memory.bytes(), 20 * bytes_of(30));
  }
  std::int64_t bytes = 0, answers = 0;
  for (std::uint64_t i = 0; i < 40; ++i)
    for (const auto& answer : memory.find(place(i).key)) {
      EXPECT_FALSE(answer->ids.empty());
      bytes += bytes_of(static_cast<std::int64_t>(answer->ids.size()));
      ++answers;
    }
  EXPECT_EQ(memory.bytes(), bytes);
  EXPECT_EQ(memory.answers(), answers);
}

TEST(TurnMemory, SeveralAnswersToOnePrompt) {
  TurnMemory memory(1 << 20);
  for (std::int32_t i = 0; i < 200; ++i) memory.remember("a", place(1), ids(3, i));
  const auto found = memory.find(place(1).key);
  ASSERT_EQ(found.size(), TurnMemory::kMostAtOnePlace);
  EXPECT_EQ(found.front()->ids, ids(3, 200 - static_cast<std::int32_t>(found.size())));
  EXPECT_EQ(found.back()->ids, ids(3, 199));
  memory.remember("a", place(1), ids(3, 199));
  EXPECT_EQ(memory.answers(), static_cast<std::int64_t>(found.size()));
  memory.remember("a", place(1), {});
  EXPECT_EQ(memory.answers(), static_cast<std::int64_t>(found.size()));
}

TEST(TurnMemory, EndsAreATenantsOwn) {
  TurnMemory memory(1 << 20);
  EXPECT_TRUE(memory.ends("a").empty());
  memory.remember("a", place(1, 11), ids(3));
  memory.remember("a", place(2, 11), ids(3));
  memory.remember("b", place(3, 12), ids(3));
  EXPECT_EQ(memory.ends("a"), std::vector<std::uint64_t>{11});
  EXPECT_EQ(memory.ends("b"), std::vector<std::uint64_t>{12});
  for (std::uint64_t i = 0; i < 100; ++i) memory.remember("b", place(10 + i, 100 + i), ids(3));
  EXPECT_EQ(memory.ends("a"), std::vector<std::uint64_t>{11});
  const auto ends = memory.ends("b");
  ASSERT_EQ(ends.size(), TurnMemory::kEnds);
  for (const std::uint64_t end : ends) EXPECT_GE(end, 200 - TurnMemory::kEnds);
}

TEST(TurnMemory, NoBudgetIsOff) {
  TurnMemory memory(0);
  EXPECT_FALSE(memory.on());
  memory.remember("a", place(1), ids(3));
  EXPECT_EQ(memory.answers(), 0);
  EXPECT_TRUE(memory.ends("a").empty());
  EXPECT_NE(TurnMemory(0).secret(), memory.secret());
}

TEST(TurnMemory, ManyThreads) {
  TurnMemory memory(50 * bytes_of(10));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&memory, t] {
      for (std::uint64_t i = 0; i < 2000; ++i) {
        const TurnPlace at = place(i % 80, static_cast<std::uint64_t>(t));
        memory.remember("a", at, ids(10, static_cast<std::int32_t>(i % 3)));
        for (const auto& answer : memory.find(at.key)) memory.use(at.key, answer);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_LE(memory.bytes(), 50 * bytes_of(10));
  EXPECT_EQ(memory.bytes(), memory.answers() * bytes_of(10));
}

}  // namespace
}  // namespace kvasir::serve
