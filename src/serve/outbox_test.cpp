#include "serve/outbox.hpp"

#include <gtest/gtest.h>

namespace kvasir::serve {
namespace {

TEST(Outbox, BytesThatComeWhileOthersAreWrittenFollowThem) {
  Outbox box;
  EXPECT_FALSE(box.begin());
  EXPECT_TRUE(box.add("abc"));
  EXPECT_TRUE(box.begin());
  EXPECT_FALSE(box.add("de")) << "a write is under way";
  EXPECT_EQ(box.left(), "abc");
  box.wrote(2);
  EXPECT_EQ(box.size(), 3u);
  EXPECT_TRUE(box.begin());
  EXPECT_EQ(box.left(), "c");
  box.wrote(1);
  EXPECT_TRUE(box.idle());
  EXPECT_TRUE(box.begin());
  EXPECT_EQ(box.left(), "de");
  box.wrote(2);
  EXPECT_FALSE(box.begin());
  EXPECT_EQ(box.size(), 0u);
}

}  // namespace
}  // namespace kvasir::serve
