#include "kv/pool.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace kvasir::kv {
namespace {

TEST(PagePool, ASequenceFillsExtentsInOrder) {
  PagePool pool(10, 4);
  std::int32_t slot = -1;
  for (std::int32_t i = 0; i < 10; ++i) {
    slot = pool.take(slot);
    EXPECT_EQ(slot, i);
  }
  EXPECT_EQ(pool.free(), 0);
}

TEST(PagePool, ANewSequenceBeginsWithAnUnusedExtent) {
  PagePool pool(10, 4);
  EXPECT_EQ(pool.take(-1), 0);
  EXPECT_EQ(pool.take(-1), 4);
  EXPECT_EQ(pool.take(-1), 8);  // an extent of two
  EXPECT_EQ(pool.take(-1), 1);  // none is unused: the first slot that is free
  EXPECT_EQ(pool.take(0), 2);   // the slot behind is taken, and no extent is unused
  EXPECT_EQ(pool.take(4), 5);
  EXPECT_EQ(pool.free(), 4);
}

TEST(PagePool, AnExtentIsUnusedAgainWhenItsLastPageIsDropped) {
  PagePool pool(8, 4);
  const auto a = pool.take(-1);
  const auto b = pool.take(a);
  const auto c = pool.take(-1);
  pool.share(b);
  pool.drop(a);
  pool.drop(b);
  EXPECT_EQ(pool.references(b), 1);
  EXPECT_EQ(pool.take(-1), 0);  // b is still there, so no extent is unused
  pool.drop(0);
  pool.drop(b);
  EXPECT_EQ(pool.take(-1), 0);
  EXPECT_EQ(pool.take(c), 5);
  EXPECT_EQ(pool.take(5), 6);
  pool.check({1, 0, 0, 0, 1, 1, 1, 0});
  EXPECT_THROW(pool.check({1, 0, 0, 0, 1, 1, 1, 1}), std::logic_error);
}

TEST(PagePool, WhatIsFullOrNotTakenIsRefused) {
  PagePool pool(1, 4);
  const auto slot = pool.take(-1);
  EXPECT_THROW(pool.take(slot), std::logic_error);
  pool.drop(slot);
  EXPECT_THROW(pool.drop(slot), std::logic_error);
}

}  // namespace
}  // namespace kvasir::kv
