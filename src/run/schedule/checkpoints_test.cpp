#include "run/schedule/checkpoints.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kv/page.hpp"
#include "store/tail.hpp"

namespace kvasir::run {
namespace {

using Points = std::vector<std::int64_t>;
constexpr std::int32_t kEnd = 9;

Points sorted(Points points) {
  std::sort(points.begin(), points.end());
  return points;
}

Points of(const ServiceRequest& asked, const std::vector<std::int32_t>& prompt) {
  return sorted(message_checkpoints(asked, prompt, [](std::int32_t id) { return id == kEnd; }));
}

// A prompt of n tokens with messages that end behind these.
std::vector<std::int32_t> messages(std::size_t n, std::initializer_list<std::size_t> ends) {
  std::vector<std::int32_t> ids(n, 1);
  for (const std::size_t end : ends) ids[end - 1] = kEnd;
  return ids;
}

// Steps that end with a page make the tail in passing: it lies in the last page before a multiple of 1,024.
TEST(Checkpoints, EveryTextLeavesATailEvery1024Tokens) {
  for (std::int64_t at = 0; at < 5000; ++at) {
    const std::int64_t next = next_tail(at);
    ASSERT_GT(next, at);
    ASSERT_LE(next, at + 1024);
    ASSERT_EQ((next + kv::kPageTokens - store::kTailGrain) % 1024, 0);
    ASSERT_EQ(next_tail(next), next + 1024);
    ASSERT_EQ(page_start(at) / kv::kPageTokens, at / kv::kPageTokens);
    ASSERT_EQ(page_start(at) % kv::kPageTokens, store::kTailGrain);
  }
}

TEST(Checkpoints, StandBehindTheFirstMessageAndTheLast) {
  EXPECT_EQ(of({}, messages(500, {100, 250, 400})), (Points{100, 400}));
  EXPECT_EQ(of({}, messages(500, {100})), Points{100});
  EXPECT_EQ(of({}, messages(500, {})), Points{});
  EXPECT_EQ(of({}, messages(500, {10, 400})), Points{400});  // what is that short is computed again
  EXPECT_EQ(of({}, messages(40, {22})), Points{22});         // as the system message that Qwen's template writes
  EXPECT_EQ(of({}, messages(30, {kLeastKept - 1})), Points{});
}

TEST(Checkpoints, StandWhereARequestSays) {
  ServiceRequest asked;
  asked.partings = {5, 200};
  EXPECT_EQ(of(asked, messages(500, {100})), (Points{100, 200}));
  asked.checkpoints = {300};
  EXPECT_EQ(of(asked, messages(500, {100})), (Points{200, 300}));
}

// The same prompt again is all but its last token, which has a page of its own here.
TEST(Checkpoints, LeaveTheLastTokenOfAPage) {
  EXPECT_EQ(of({}, messages(257, {})), Points{256});
  EXPECT_EQ(of({}, messages(256, {})), Points{});
  EXPECT_EQ(of({}, messages(1, {})), Points{});
}

TEST(Checkpoints, ALongPromptHasSomeNearItsEndAndOneBehindIt) {
  const Points points = sorted(waypoints(3000, 0));
  EXPECT_EQ(points, sorted({page_start(3000 - 128), page_start(3000 - 512), next_tail(0), next_tail(1024),
                            next_tail(2048), next_tail(3000)}));
  // Nothing near what is restored: a tail there would save little.
  const std::int64_t near = page_start(3000 - 128);
  EXPECT_EQ(waypoints(3000, near - 511), (Points{next_tail(near), next_tail(3000)}));
  EXPECT_EQ(waypoints(3000, near - 512), (Points{near, next_tail(near), next_tail(3000)}));
}

TEST(Checkpoints, OfPagesThatSufficeAreTheSinksAndTheLastPage) {
  EXPECT_EQ(page_waypoints(1000, 4), (Points{17, page_start(999)}));
  EXPECT_EQ(page_waypoints(1000, 0), (Points{17, page_start(999)}));
  EXPECT_EQ(page_waypoints(1000, 20), (Points{33, page_start(999)}));
  EXPECT_EQ(page_waypoints(100, 4), Points{17});
}

TEST(Checkpoints, AheadAreThoseThatAPromptStillPasses) {
  const std::int64_t behind = next_tail(999);
  const Points points = {500, 100, behind, 1000, 500, 200, behind + 1024};
  EXPECT_EQ(ahead(points, 1000, 200, false), Points{500});  // the next one last
  EXPECT_EQ(ahead(points, 1000, 100, false), (Points{500, 200}));
  EXPECT_EQ(ahead(points, 1000, 200, true), (Points{behind, 500}));
  EXPECT_EQ(ahead(points, 1000, behind, true), Points{behind + 1024});  // of an answer that was restored
}

}  // namespace
}  // namespace kvasir::run
