#include "run/schedule/shared_state.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.hpp"

namespace kvasir::run {
namespace {

RequestId put(SharedState& shared) { return shared.put(std::make_unique<Job>()); }

TEST(SharedState, TakesWhatMayRunAndWait) {
  SharedState shared(2, 1);
  for (RequestId id : {1u, 2u, 3u}) EXPECT_EQ(put(shared), id);
  try {
    put(shared);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBusy);
    EXPECT_EQ(e.context(), "queue");
  }
  EXPECT_EQ(shared.stats().requests, 3u);
  EXPECT_EQ(shared.stats().rejected, 1u);
  shared.cancel(2);
  EXPECT_FALSE(shared.quiet());
  const auto [arrived, cancelled] = shared.take();
  EXPECT_EQ(arrived.size(), 3u);
  EXPECT_EQ(cancelled, std::vector<RequestId>{2});
  EXPECT_TRUE(shared.quiet());
  EXPECT_TRUE(shared.take().first.empty());
}

TEST(SharedState, WhatIsRefusedSaysSo) {
  SharedState shared(1, 0);
  put(shared);
  EXPECT_FALSE(shared.drain(0));  // the one is left
  for (int i = 0; i < 2; ++i) {
    try {
      put(shared);
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.context(), "server") << i;
    }
    shared.stop();
  }
  EXPECT_EQ(shared.stats().rejected, 2u);
}

TEST(SharedState, TheEngineWaitsForWork) {
  SharedState shared(1, 1);
  EXPECT_TRUE(shared.wait(true));
  for (int i = 0; i < 3; ++i) {
    std::thread other([&] {
      if (i == 0) put(shared);
      if (i == 1) shared.cancel(1);
      if (i == 2) shared.wake_searched();
    });
    EXPECT_TRUE(shared.wait(false)) << i;
    other.join();
    const auto [arrived, cancelled] = shared.take();
    EXPECT_EQ(arrived.size(), i == 0 ? 1u : 0u);
    EXPECT_EQ(cancelled.size(), i == 1 ? 1u : 0u);
  }
  std::thread end([&] { shared.stop(); });
  EXPECT_FALSE(shared.wait(false));
  end.join();
}

TEST(SharedState, CountsHowRequestsEnd) {
  SharedState shared(1, 1);
  for (const Finish finish : {Finish::kEnd, Finish::kStop, Finish::kLength, Finish::kContext, Finish::kCancelled}) {
    Outcome out;
    out.finish = finish;
    out.completion_tokens = 5;
    out.receipt.reused_tokens = 3;
    shared.count_request(out, 10);
    out.failure = Failure::kWeights;
    shared.count_request(out, 1);
  }
  const ServiceStats s = shared.stats();
  EXPECT_EQ(s.stopped, 2u);
  EXPECT_EQ(s.cut, 2u);
  EXPECT_EQ(s.cancelled, 1u);
  EXPECT_EQ(s.failed, 5u);
  EXPECT_EQ(s.prompt_tokens, 55u);
  EXPECT_EQ(s.reused_tokens, 30u);
  EXPECT_EQ(s.generated_tokens, 50u);
}

TEST(SharedState, AStepMayCountForBoth) {
  SharedState shared(4, 1);
  shared.count_step(3, 3, 0, 0.5);
  shared.count_step(1, 2, 100, 0.25);
  shared.count_step(0, 0, 50, 0.125);
  const StepStats work = shared.stats().work;
  EXPECT_EQ(work.steps, 2u);
  EXPECT_EQ(work.answers, 4u);
  EXPECT_EQ(work.most_answers, 3u);
  EXPECT_EQ(work.answer_tokens, 5u);
  EXPECT_EQ(work.prompt_tokens, 150u);
  EXPECT_EQ(work.answer_seconds, 0.75);
  EXPECT_EQ(work.prompt_seconds, 0.375);
}

}  // namespace
}  // namespace kvasir::run
