#include "run/schedule/step_plan.hpp"

#include <gtest/gtest.h>

#include "run/schedule/schedule_fixture.hpp"

namespace kvasir::run {
namespace {

using Counts = std::vector<std::int64_t>;

class StepPlanTest : public ::testing::Test {
 protected:
  Job& add(std::unique_ptr<Job> job) {
    running_.push_back(std::move(job));
    return *running_.back();
  }
  // Tokens of the inputs, by request.
  Counts counts(const StepPlan& plan) const {
    Counts n(running_.size());
    for (std::size_t i = 0; i < plan.jobs.size(); ++i)
      for (std::size_t j = 0; j < running_.size(); ++j)
        if (running_[j].get() == plan.jobs[i]) n[j] = static_cast<std::int64_t>(plan.inputs[i].tokens.size());
    return n;
  }
  Counts plan(const StepPlanner::Limits& limits) {
    StepPlanner planner(small_.cache(), sharing_, limits);
    return counts(planner.plan(running_));
  }

  testing::SmallCache small_{65536, 16};
  Jobs running_;
  Sharing sharing_{small_.cache(), running_};
};

TEST_F(StepPlanTest, AnswersComeFirstAndPromptsGetTheRest) {
  add(small_.run(1000));
  Job& answer = add(small_.answer(300));
  StepPlanner planner(small_.cache(), sharing_, {.step_tokens = 256, .seconds = 0});
  const StepPlan& plan = planner.plan(running_);
  ASSERT_EQ(plan.jobs.size(), 2u);
  EXPECT_EQ(plan.jobs[0], &answer);
  EXPECT_EQ(plan.answers, 1);
  EXPECT_EQ(plan.rows, 1);
  EXPECT_EQ(plan.tokens(), 256);
  EXPECT_TRUE(plan.inputs[0].decode);
  EXPECT_EQ(plan.inputs[0].logits, 1);
  EXPECT_EQ(plan.inputs[0].tokens[0], 7);
  EXPECT_EQ(plan.inputs[0].at, 300);
  EXPECT_FALSE(plan.inputs[1].decode);
  EXPECT_EQ(plan.inputs[1].logits, 0);  // more of the prompt follows
}

TEST_F(StepPlanTest, WhatAShortPromptDoesNotNeedIsTheOthers) {
  for (const std::int64_t n : {1000, 40, 900}) add(small_.run(n));
  EXPECT_EQ(plan({.chunk = 512, .seconds = 0}), (Counts{236, 40, 236}));
  StepPlanner planner(small_.cache(), sharing_, {.chunk = 512, .seconds = 0});
  EXPECT_EQ(planner.plan(running_).inputs[0].logits, 1);  // the short one's are wanted
  // It would wait for the others as answers would.
  EXPECT_EQ(plan({.chunk = 512, .seconds = 0.2}), (Counts{16, 40, 16}));
}

TEST_F(StepPlanTest, PromptsHaveAQuarterHoweverManyAnswersGrow) {
  for (int i = 0; i < 7; ++i) add(small_.answer(10));
  add(small_.run(500));
  EXPECT_EQ(plan({.step_tokens = 8, .seconds = 0}).back(), 2);
  EXPECT_EQ(plan({.step_tokens = 100, .seconds = 0}).back(), 93);
  EXPECT_EQ(plan({.step_tokens = 100, .rows = 60, .seconds = 0}).back(), 53);  // there is no more room
}

// With 1 ms a row, found from what steps took, slices are as long as the time allows, in rows as kernels take them.
TEST_F(StepPlanTest, SlicesBesideAnswersAreAsLongAsTheTimeAllows) {
  Job& prompt = add(small_.run(20000));
  add(small_.answer(10));
  StepPlanner planner(small_.cache(), sharing_, {.step_tokens = 512, .rows = 512, .seconds = 0.1});
  std::int64_t slice = planner.plan(running_).tokens() - 1;
  EXPECT_EQ(slice, PromptPace::kFewest);  // nothing is known yet
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(planner.last().bounded);
    planner.learn(1e-3 * static_cast<double>(slice));
    slice = planner.plan(running_).tokens() - 1;
    EXPECT_EQ(planner.plan(running_).tokens() % PromptPace::kFewest, 0);
  }
  EXPECT_NEAR(static_cast<double>(slice), 100, 16);
  EXPECT_EQ(prompt.cached(), 0);  // planning changes nothing
}

TEST_F(StepPlanTest, APromptStopsWhereAFollowerParts) {
  Job& leader = add(small_.run(1000));
  Job& follower = add(small_.ask(1000));
  follower.leader = {&leader, 300};
  EXPECT_EQ(plan({.chunk = 512, .seconds = 0}), (Counts{300, 0}));
  small_.compute(leader, 300);
  EXPECT_EQ(plan({.chunk = 512, .seconds = 0}), (Counts{512, 0}));
}

// A checkpoint is passed as long as its tail can be made behind it: the step ends with its page, not with it.
TEST_F(StepPlanTest, APromptStopsWhileACheckpointsTailIsThere) {
  testing::SmallCache lossy(65536, 1, "int8_token");  // what was sealed is not what it was
  Job& job = add(lossy.run(1000));
  const auto count = [&](std::int64_t chunk) {
    StepPlanner planner(lossy.cache(), sharing_, {.chunk = chunk, .rows = 512, .seconds = 0});
    return planner.plan(running_).tokens();
  };
  job.kept.checkpoints = {900, 300};
  EXPECT_EQ(count(512), 384);
  EXPECT_TRUE(lossy.cache().rules().keeps_tail(384, 300));
  EXPECT_FALSE(lossy.cache().rules().keeps_tail(512, 300));
  EXPECT_EQ(count(350), 350);
  job.kept.checkpoints = {900};
  EXPECT_EQ(count(512), 512);
}

TEST_F(StepPlanTest, RowsThatSeeEachOtherStayTogether) {
  Job& job = add(small_.run(300));
  const auto picture = std::make_shared<model::RowBlock>(
      store::Key{}, model::RowShape{.count = 50, .width = 4, .sight = model::Sight::kAll},
      [](model::RowWatch&) { return std::vector<float>(50 * 4); });
  model::RowWatch watch;
  picture->load(watch);
  job.asked.request.runs = {{90, picture}};
  EXPECT_EQ(plan({.chunk = 100, .seconds = 0}), Counts{90});
  EXPECT_EQ(plan({.chunk = 80, .seconds = 0}), Counts{80});
  EXPECT_EQ(plan({.chunk = 140, .seconds = 0}), Counts{140});
  small_.compute(job, 90);
  EXPECT_EQ(plan({.chunk = 40, .rows = 50, .seconds = 0}), Counts{50});  // more than its part
  StepPlanner narrow(small_.cache(), sharing_, {.chunk = 40, .rows = 49, .seconds = 0});
  EXPECT_TRUE(narrow.plan(running_).inputs.empty());  // another step has room for it
}

TEST_F(StepPlanTest, WhoWaitsOrIsOverIsNotComputed) {
  add(small_.run(100)).over = true;
  add(small_.answer(100)).over = true;
  Job& job = add(small_.run(100));
  EXPECT_EQ(plan({.seconds = 0}), (Counts{0, 0, 100}));
  job.leader.job = running_[0].get();
  EXPECT_EQ(plan({.seconds = 0}), (Counts{0, 0, 0}));
}

// Scores and vectors are read from the step's rows, so no logits are wanted.
TEST_F(StepPlanTest, PromptsWhoseRowsAreReadWantNoLogits) {
  Job& job = add(small_.run(100));
  StepPlanner planner(small_.cache(), sharing_, {.seconds = 0});
  EXPECT_FALSE(planner.plan(running_).reads_rows);
  EXPECT_EQ(planner.last().inputs[0].logits, 1);
  job.asked.request.prompt_logprobs = true;
  EXPECT_TRUE(planner.plan(running_).reads_rows);
  EXPECT_EQ(planner.last().inputs[0].logits, 0);
  job.scored = job.prompt;  // a preempted one has said them
  EXPECT_FALSE(planner.plan(running_).reads_rows);
  EXPECT_EQ(planner.last().inputs[0].logits, 1);
}

// What was drafted for an answer is held against one row more.
TEST_F(StepPlanTest, DraftTokensAreRowsOfTheirAnswer) {
  Job& job = add(small_.answer(50));
  add(small_.run(1000));
  job.draft = std::make_unique<Drafting::Text>();
  job.draft->fed = {7, 1, 2, 3};
  StepPlanner planner(small_.cache(), sharing_, {.step_tokens = 256, .seconds = 0});
  const StepPlan& plan = planner.plan(running_);
  EXPECT_EQ(counts(plan), (Counts{4, 252}));
  EXPECT_EQ(plan.rows, 4);
  EXPECT_EQ(plan.answers, 1);
  EXPECT_EQ(plan.inputs[0].logits, 4);
  EXPECT_TRUE(plan.inputs[0].decode);
}

}  // namespace
}  // namespace kvasir::run
