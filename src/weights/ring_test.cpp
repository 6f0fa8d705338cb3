// Order and places of blocks in the ring, with a clock that the test makes.
#include "weights/ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace kvasir::weights {
namespace {

using Bytes = std::vector<std::int64_t>;

// A disk that gives `rate` bytes a second and a computation that takes `compute` seconds for a block, over `passes`
// passes through the cycle. Checks that no place that is held or written to is given away.
struct Simulation {
  double seconds = 0, stall = 0, busy = 0;
  std::vector<int> read;  // blocks, in order

  Simulation(const Bytes& bytes, std::int64_t room, double rate, double compute, int passes) {
    Ring ring(bytes, room);
    std::map<std::uint64_t, std::pair<std::int64_t, std::int64_t>> writing;
    std::map<int, std::pair<std::int64_t, std::int64_t>> held;
    std::optional<Ring::Read> under_way;
    double disk_done = 0;
    const auto go_on_reading = [&] {
      if (under_way) return;
      under_way = ring.next();
      if (!under_way) return;
      const std::int64_t size = bytes[static_cast<std::size_t>(under_way->block)];
      const std::pair<std::int64_t, std::int64_t> place{under_way->at, under_way->at + size};
      EXPECT_GE(place.first, 0);
      EXPECT_LE(place.second, room);
      for (const auto& [block, other] : held)
        EXPECT_TRUE(place.second <= other.first || other.second <= place.first) << "over block " << block;
      writing[under_way->id] = place;
      read.push_back(under_way->block);
      disk_done = seconds + static_cast<double>(size) / rate;
      busy += static_cast<double>(size) / rate;
    };
    // The disk works until `until`.
    const auto run_disk = [&](double until) {
      go_on_reading();
      while (under_way && disk_done <= until) {
        seconds = disk_done;
        ring.arrived(under_way->id, true);
        writing.erase(under_way->id);
        under_way.reset();
        go_on_reading();
      }
      seconds = until;
    };
    for (int pass = 0; pass < passes; ++pass)
      for (int b = 0; b < static_cast<int>(bytes.size()); ++b) {
        EXPECT_TRUE(ring.want(b) || (pass == 0 && b == 0));
        const double start = seconds;
        while (!ring.ready(b)) {
          go_on_reading();
          if (!under_way) {
            ADD_FAILURE() << "nothing is read and block " << b << " is wanted";
            return;
          }
          run_disk(disk_done);
        }
        stall += seconds - start;
        const std::int64_t at = ring.hold(b);
        const std::pair<std::int64_t, std::int64_t> place{at, at + bytes[static_cast<std::size_t>(b)]};
        for (const auto& [id, other] : writing)
          EXPECT_TRUE(place.second <= other.first || other.second <= place.first) << "being written";
        held[b] = place;
        run_disk(seconds + compute);
        ring.release(b);
        held.erase(b);
      }
  }
};

TEST(Ring, ReadsInOrderAcrossTheEndOfAPass) {
  const Bytes bytes{4, 6, 5, 7};
  const Simulation s(bytes, Ring::least_room(bytes), 1, 0, 3);
  for (std::size_t i = 0; i < s.read.size(); ++i) EXPECT_EQ(s.read[i], static_cast<int>(i % 4));
  EXPECT_GT(s.read.size(), 12u);  // the fourth pass has begun
}

TEST(Ring, NothingIsWaitedForWhenReadingIsFaster) {
  const Bytes bytes(10, 8);
  const Simulation s(bytes, 8 * 5, 10, 1.0, 5);
  EXPECT_NEAR(s.stall, 0.8, 1e-9);  // the very first block
}

TEST(Ring, TheSlowerOfBothDecides) {
  const Bytes bytes(12, 10);
  const int passes = 20;
  for (const double compute : {0.01, 0.2, 0.5, 0.9, 1.0, 1.1, 2.0, 5.0}) {
    const Simulation s(bytes, 10 * 5, 10, compute, passes);
    const double blocks = 12.0 * passes;
    EXPECT_NEAR(s.seconds, blocks * std::max(1.0, compute) + 1, 4) << compute;
    if (compute < 1)
      EXPECT_NEAR(s.stall, blocks * (1 - compute), 4) << compute;
    else
      EXPECT_LE(s.stall, 1.01) << compute;
  }
}

TEST(Ring, RandomSizesAndRoomsNeverOverlapOrStandStill) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    Bytes bytes(1 + random() % 9);
    for (auto& b : bytes) b = 1 + static_cast<std::int64_t>(random() % 50);
    const std::int64_t room = Ring::least_room(bytes) + static_cast<std::int64_t>(random() % 200);
    const Simulation s(bytes, room, 1 + static_cast<double>(random() % 30), static_cast<double>(random() % 4), 4);
    if (HasFailure()) return;
  }
}

// A pass that does not go to its end, and one that begins somewhere else: what is being written stays away.
TEST(Ring, APassThatJumpsBeginsAnew) {
  const Bytes bytes{5, 5, 5, 5, 5, 5};
  Ring ring(bytes, 25);
  const auto first = ring.next(), second = ring.next(), third = ring.next();
  ASSERT_TRUE(first && second && third);
  ring.arrived(first->id, true);
  EXPECT_TRUE(ring.want(0));
  EXPECT_EQ(ring.hold(0), first->at);
  ring.release(0);
  ring.arrived(second->id, true);
  EXPECT_FALSE(ring.want(4));  // block 2 is still being written
  EXPECT_FALSE(ring.wanted(third->id));
  const auto next = ring.next();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->block, 4);
  EXPECT_TRUE(next->at >= third->at + 5 || next->at + 5 <= third->at);
  ring.arrived(next->id, true);
  EXPECT_TRUE(ring.ready(4));
  ring.arrived(third->id, true);
  EXPECT_FALSE(ring.ready(2));
  ring.hold(4);
  ring.release(4);
}

TEST(Ring, AFailedReadIsReadAgain) {
  Ring ring({5, 5, 5}, 20);
  const auto first = ring.next();
  ring.want(0);
  ring.arrived(first->id, false);
  EXPECT_FALSE(ring.ready(0));
  ring.restart(0);
  const auto again = ring.next();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->block, 0);
  ring.arrived(again->id, true);
  EXPECT_TRUE(ring.ready(0));
}

// A read fails while the block before it is held: what was read ahead behind the held one makes room, or nothing could
// ever be read again.
TEST(Ring, AFailedReadBehindAHeldBlockIsReadAgain) {
  Ring ring({5, 5, 5, 5}, 20);
  const auto first = ring.next(), second = ring.next(), third = ring.next(), fourth = ring.next();
  ASSERT_TRUE(first && second && third && fourth);
  ASSERT_FALSE(ring.next());
  EXPECT_TRUE(ring.want(0));
  ring.arrived(first->id, true);
  EXPECT_EQ(ring.hold(0), 0);
  ring.arrived(third->id, true);
  ring.arrived(second->id, false);
  ring.restart(1);
  ring.arrived(fourth->id, true);  // no longer wanted
  const auto again = ring.next();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->block, 1);
  EXPECT_GE(again->at, 5);
  ring.arrived(again->id, true);
  EXPECT_TRUE(ring.ready(1));
}

TEST(Ring, NeverHoldsABlockTwice) {
  Ring ring({5, 5}, 100);
  EXPECT_TRUE(ring.next());
  EXPECT_TRUE(ring.next());
  EXPECT_FALSE(ring.next());
}

}  // namespace
}  // namespace kvasir::weights
