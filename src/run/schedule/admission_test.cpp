#include "run/schedule/admission.hpp"

#include <gtest/gtest.h>

#include "run/schedule/schedule_fixture.hpp"

namespace kvasir::run {
namespace {

constexpr std::int64_t kContext = 4096;

RequestId id_of(const Job* job) { return job ? job->id : 0; }

TEST(Admission, IsInOrderOfArrivalAsManyAsMayRun) {
  testing::SmallCache small(65536, 4);
  Admission admission(small.cache(), kContext, 2);
  EXPECT_EQ(admission.admit(), nullptr);
  for (int i = 0; i < 3; ++i) admission.enqueue(small.ask(100));
  ASSERT_NE(admission.admit(), nullptr);
  EXPECT_EQ(id_of(admission.admit()), 2u);
  EXPECT_EQ(admission.admit(), nullptr);
  EXPECT_EQ(admission.running().size(), 2u);
  EXPECT_EQ(admission.waiting().size(), 1u);
  admission.running()[0]->over = true;
  EXPECT_EQ(admission.admit(), nullptr);  // it has its place until it is swept
  admission.sweep();
  EXPECT_EQ(id_of(admission.admit()), 3u);
}

// Pages of the prompt and of 256 tokens of the answer are promised, as those that run will need them, not as they have
// them now.
TEST(Admission, WaitsForPages) {
  testing::SmallCache small(2048, 4);
  const std::int64_t pages = small.cache().memory().pages;
  const std::int64_t each = small.cache().rules().sealed_pages(1000 + 256);
  ASSERT_LE(each, pages);
  ASSERT_GT(2 * each, pages);
  Admission admission(small.cache(), kContext, 4);
  for (int i = 0; i < 2; ++i) admission.enqueue(small.ask(1000));
  EXPECT_EQ(id_of(admission.admit()), 1u);
  EXPECT_EQ(admission.admit(), nullptr);
  EXPECT_EQ(small.cache().stats().free_pages, pages);
  admission.running()[0]->over = true;  // it gave its pages back, and waits for the sweep
  EXPECT_EQ(id_of(admission.admit()), 2u);
}

TEST(Admission, PromisesNoMoreThanTheAnswerAndTheContext) {
  for (const bool bound : {false, true}) {
    testing::SmallCache small(2048, 4);
    ASSERT_LE(2 * small.cache().rules().sealed_pages(1000 + 8), small.cache().memory().pages);
    Admission by_length(small.cache(), kContext, 4), by_context(small.cache(), bound ? 1008 : kContext, 4);
    for (int i = 0; i < 2; ++i) {
      by_length.enqueue(small.ask(1000, bound ? 8 : 1000));
      by_context.enqueue(small.ask(1000));
    }
    for (Admission* a : {&by_length, &by_context}) {
      EXPECT_NE(a->admit(), nullptr);
      EXPECT_EQ(a->admit() != nullptr, bound);
    }
  }
}

TEST(Admission, ARequestAloneIsAlwaysAdmitted) {
  testing::SmallCache small(512, 2);
  Admission admission(small.cache(), kContext, 2);
  admission.enqueue(small.ask(3000));
  admission.enqueue(small.ask(1));
  EXPECT_EQ(id_of(admission.admit()), 1u);
  EXPECT_EQ(admission.admit(), nullptr);
}

TEST(Admission, ThePreemptedComesNext) {
  testing::SmallCache small(65536, 4);
  Admission admission(small.cache(), kContext, 3);
  for (int i = 0; i < 4; ++i) admission.enqueue(small.ask(100));
  while (admission.admit()) {
  }
  admission.running()[2]->over = true;
  EXPECT_EQ(admission.alive(), 2);
  Job* youngest = admission.youngest();
  ASSERT_EQ(id_of(youngest), 2u);
  admission.requeue(*youngest);
  EXPECT_EQ(admission.alive(), 1);
  EXPECT_EQ(id_of(admission.youngest()), 1u);
  EXPECT_EQ(admission.waiting().front()->id, 2u);
  EXPECT_EQ(admission.waiting().back()->id, 4u);
  admission.sweep();
  EXPECT_EQ(admission.admit(), youngest);
  for (const auto& job : admission.running()) job->over = true;
  EXPECT_EQ(admission.youngest(), nullptr);
}

}  // namespace
}  // namespace kvasir::run
