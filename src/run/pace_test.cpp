#include "run/pace.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace kvasir::run {
namespace {

TEST(PromptPace, FindsTheRowsOfATime) {
  PromptPace pace;
  EXPECT_EQ(pace.rows(10), PromptPace::kFewest);  // nothing is known yet
  pace.learn(1, 5);                               // a token alone says nothing
  EXPECT_EQ(pace.rows(10), PromptPace::kFewest);
  pace.learn(256, 0.256);
  EXPECT_EQ(pace.rows(0.1), 100);
  EXPECT_EQ(pace.rows(0.001), PromptPace::kFewest);
}

// Of a machine on which the first rows beside answers are free, and the others cost what they cost.
TEST(PromptPace, SettlesWhereRowsAreAsLongAsIsWanted) {
  for (const double row : {0.0005, 0.004, 0.02}) {
    const auto seconds = [&](std::int64_t rows) {
      return row * static_cast<double>(std::max<std::int64_t>(rows - 12, 0));
    };
    PromptPace pace;
    for (int i = 0; i < 40; ++i) {
      const std::int64_t rows = pace.rows(0.1);
      pace.learn(static_cast<double>(rows), seconds(rows));
    }
    const std::int64_t right = std::max(PromptPace::kFewest, 12 + static_cast<std::int64_t>(0.1 / row));
    EXPECT_NEAR(static_cast<double>(pace.rows(0.1)), static_cast<double>(right), 0.05 * static_cast<double>(right) + 1);
  }
}

TEST(PromptPace, OneStepThatIsHeldUpDoesNotDecide) {
  PromptPace pace;
  for (int i = 0; i < 8; ++i) pace.learn(100, 0.1);
  pace.learn(100, 60);
  EXPECT_GE(pace.rows(0.1), 40);
  pace.learn(100, 0);  // nor does one that seems to cost nothing
  EXPECT_LE(pace.rows(0.1), 100);
}

}  // namespace
}  // namespace kvasir::run
