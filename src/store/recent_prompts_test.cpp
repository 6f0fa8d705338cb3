#include "store/recent_prompts.hpp"

#include <gtest/gtest.h>

namespace kvasir::store {
namespace {

TEST(RecentPrompts, TheNearestOfATenant) {
  RecentPrompts prompts;
  const std::vector<std::int32_t> a{1, 2, 3}, b{1, 2, 4, 5, 6}, asked{1, 2, 4, 5, 7};
  prompts.add("t", a);
  prompts.add("t", b);
  prompts.add("other", asked);
  EXPECT_EQ(prompts.nearest("t", asked).tokens, 4);
  EXPECT_FALSE(prompts.nearest("t", asked).ends);
  const std::vector<std::int32_t> longer{1, 2, 3, 9};
  EXPECT_EQ(prompts.nearest("t", longer).tokens, 3);
  EXPECT_TRUE(prompts.nearest("t", longer).ends);
  EXPECT_EQ(prompts.nearest("nobody", a).tokens, 0);
}

TEST(RecentPrompts, TheOldestGoFirst) {
  RecentPrompts prompts;
  for (std::int32_t i = 0; i <= static_cast<std::int32_t>(RecentPrompts::kMost); ++i)
    prompts.add("t", std::vector<std::int32_t>{i, i});
  EXPECT_EQ(prompts.nearest("t", std::vector<std::int32_t>{0, 0}).tokens, 0);
  EXPECT_EQ(prompts.nearest("t", std::vector<std::int32_t>{1, 1}).tokens, 2);
}

}  // namespace
}  // namespace kvasir::store
