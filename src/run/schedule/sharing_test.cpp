#include "run/schedule/sharing.hpp"

#include <gtest/gtest.h>

#include "run/schedule/schedule_fixture.hpp"

namespace kvasir::run {
namespace {

class SharingTest : public ::testing::Test {
 protected:
  // Running: its first `common` tokens are those of every other one.
  Job& add(std::int64_t n, std::int64_t common, std::int64_t computed = 0) {
    running_.push_back(small_.run(n, computed));
    for (std::int64_t i = common; i < n; ++i)
      running_.back()->ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(10000 * running_.size());
    return *running_.back();
  }
  // The same, before it has begun.
  Job& arrive(std::int64_t n, std::int64_t common) {
    Job& job = add(n, common);
    small_.cache().release(job.sequence);
    job.sequence = nullptr;
    return job;
  }

  testing::SmallCache small_{65536, 8};
  Jobs running_;
  Sharing sharing_{small_.cache(), running_};
};

TEST_F(SharingTest, TheLeaderHasTheLongestBeginningInCommon) {
  Job& near = add(400, 300);
  add(400, 200);
  Job& job = arrive(500, 500);
  const Job::Lead lead = sharing_.find_leader(job);
  EXPECT_EQ(lead.job, &near);
  EXPECT_EQ(lead.share, 300);
  near.over = true;
  EXPECT_EQ(sharing_.find_leader(job).share, 200);
}

TEST_F(SharingTest, AllButTheLastTokenAreShared) {
  add(400, 400);
  EXPECT_EQ(sharing_.find_leader(arrive(400, 400)).share, 399);
}

TEST_F(SharingTest, OthersDoNotLead) {
  Job& other = add(400, 300);
  Job& job = arrive(500, 500);
  const auto leads = [&](auto change) {
    change();
    const bool found = sharing_.find_leader(job).job != nullptr;
    other.asked = {};
    job.asked = {};
    other.space = "";
    other.kept = {};
    other.blended = {};
    return found;
  };
  EXPECT_TRUE(leads([] {}));
  EXPECT_FALSE(leads([&] { other.space = "x"; }));
  EXPECT_FALSE(leads([&] { other.asked.reuse = false; }));
  EXPECT_FALSE(leads([&] { job.asked.reuse = false; }));
  EXPECT_FALSE(leads([&] { job.asked.request.prompt_logprobs = true; }));
  EXPECT_FALSE(leads([&] { other.blended.ids = {1}; }));
  EXPECT_TRUE(leads([] {}));
  Job& brief = arrive(500, 31);
  EXPECT_EQ(sharing_.find_leader(brief).job, nullptr);  // a step does as much
}

TEST_F(SharingTest, AFollowerTakesItsPartWhenItIsThere) {
  Job& leader = add(400, 300);
  Job& follower = arrive(500, 500);
  follower.leader = {&leader, 300};
  EXPECT_TRUE(follower.waits());
  EXPECT_EQ(sharing_.stop_of(leader, 400), 300);
  EXPECT_EQ(sharing_.stop_of(leader, 200), 200);
  small_.compute(leader, 299);
  sharing_.start_followers(leader);
  EXPECT_TRUE(follower.waits());
  small_.compute(leader, 101);
  EXPECT_EQ(sharing_.stop_of(leader, 400), 400);
  sharing_.start_followers(leader);
  EXPECT_FALSE(follower.waits());
  EXPECT_EQ(follower.cached(), 300);
  EXPECT_EQ(leader.cached(), 400);
  EXPECT_EQ(follower.outcome.receipt.reused_tokens, 300);
  ASSERT_EQ(follower.outcome.receipt.spans.size(), 1u);
  EXPECT_EQ(follower.outcome.receipt.spans[0].source, "live");
  small_.cache().check_integrity();
}

TEST_F(SharingTest, WhoIsLeftTakesWhatIsThere) {
  Job& leader = add(400, 300, 100);
  Job& follower = arrive(500, 500);
  follower.leader = {&leader, 300};
  sharing_.leave_followers(leader);
  EXPECT_EQ(follower.cached(), 100);
  EXPECT_EQ(follower.outcome.receipt.reused_tokens, 100);

  Job& early = add(400, 300, 20);
  Job& other = arrive(500, 500);
  other.leader = {&early, 300};
  sharing_.leave_followers(early);
  EXPECT_FALSE(other.waits());
  ASSERT_NE(other.sequence, nullptr);
  EXPECT_EQ(other.cached(), 0);  // so few are computed again
  EXPECT_EQ(other.outcome.receipt.reused_tokens, 0);
}

}  // namespace
}  // namespace kvasir::run
