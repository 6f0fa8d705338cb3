#include "run/pace.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvasir::run {
namespace {

using Slice = PromptPace::Slice;

void learn(PromptPace& pace, std::int64_t rows, std::int64_t depth, double seconds) {
  const Slice slice{rows, depth};
  pace.learn({&slice, 1}, seconds);
}

TEST(PromptPace, FindsTheRowsOfATime) {
  PromptPace pace;
  EXPECT_EQ(pace.rows(0, 10), PromptPace::kFewest);  // nothing is known yet
  learn(pace, 1, 0, 5);                              // a token alone says nothing
  EXPECT_EQ(pace.rows(0, 10), PromptPace::kFewest);
  learn(pace, 256, 0, 0.256);
  EXPECT_EQ(pace.rows(0, 0.1), 100);
  EXPECT_EQ(pace.rows(0, 0.001), 1);
  EXPECT_EQ(pace.rows(0, -1), 0);
}

// Of a machine on which the first rows beside answers are free, and the others cost what they cost.
TEST(PromptPace, SettlesWhereRowsAreAsLongAsIsWanted) {
  for (const double row : {0.0005, 0.004, 0.02}) {
    const auto rows_of = [&](const PromptPace& pace) { return std::max(PromptPace::kFewest, pace.rows(0, 0.1)); };
    PromptPace pace;
    for (int i = 0; i < 60; ++i) {
      const std::int64_t rows = rows_of(pace);
      learn(pace, rows, 0, row * static_cast<double>(std::max<std::int64_t>(rows - 12, 0)));
    }
    const std::int64_t right = std::max(PromptPace::kFewest, 12 + static_cast<std::int64_t>(0.1 / row));
    EXPECT_NEAR(static_cast<double>(rows_of(pace)), static_cast<double>(right), 0.05 * static_cast<double>(right) + 1);
  }
}

TEST(PromptPace, OneStepThatIsHeldUpDoesNotDecide) {
  PromptPace pace;
  for (int i = 0; i < 8; ++i) learn(pace, 100, 0, 0.1);
  learn(pace, 100, 0, 60);
  EXPECT_GE(pace.rows(0, 0.1), 40);
  learn(pace, 100, 0, 0);  // nor does one that seems to cost nothing
  EXPECT_LE(pace.rows(0, 0.1), 100);
}

// A row behind many tokens costs more, and a step of several prompts says something of each.
TEST(PromptPace, KnowsRowsByTheirDepth) {
  const auto cost = [](std::int64_t depth) { return 0.001 * (1 + static_cast<double>(depth) / 2000); };
  PromptPace pace;
  for (std::int64_t depth = 0; depth < 16000; depth += 50) learn(pace, 50, depth, 50 * cost(depth));
  for (const std::int64_t depth : {0, 3000, 12000})  // a class is twice as deep at its end, where it was learned last
    EXPECT_NEAR(pace.row_seconds(depth) / cost(depth), 1.3, 0.35) << depth;
  EXPECT_LT(2 * pace.rows(12000, 0.1), pace.rows(0, 0.1));
  EXPECT_EQ(pace.rows(1 << 22, 0.1), pace.rows(15999, 0.1));  // as deep as anything was seen
  const double shallow = pace.row_seconds(0), deep = pace.row_seconds(12000);
  const Slice both[] = {{100, 0}, {50, 12000}};
  for (int i = 0; i < 20; ++i) pace.learn(both, 3 * (100 * shallow + 50 * deep));  // the machine has become slower
  EXPECT_NEAR(pace.row_seconds(0), 3 * shallow, 0.1 * shallow);
  EXPECT_NEAR(pace.row_seconds(12000), 3 * deep, 0.1 * deep);
}

}  // namespace
}  // namespace kvasir::run
