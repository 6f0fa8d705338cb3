#include "base/team.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <vector>

#include "base/error.hpp"

namespace kvasir {
namespace {

TEST(Team, RunsEveryWorkerOnce) {
  for (int n : {1, 2, 3, 7}) {
    Team team(n);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
      team.run([&](int w) { hits[static_cast<std::size_t>(w)]++; });
      for (auto& h : hits) EXPECT_EQ(h, 1);
    }
  }
}

// Other numbers of threads from call to call: nobody who is left out takes part, and nobody is missed.
TEST(Team, UsesAsManyAsItIsTold) {
  Team team(4);
  EXPECT_EQ(team.most(), 4);
  for (int round = 0; round < 3000; ++round) {
    const int active = 1 + round * 7 % 4;
    team.use(active);
    EXPECT_EQ(team.size(), active);
    std::array<std::atomic<int>, 4> hits{};
    team.run([&](int w) { hits[static_cast<std::size_t>(w)]++; });
    for (int w = 0; w < 4; ++w) ASSERT_EQ(hits[static_cast<std::size_t>(w)], w < active) << round;
    std::atomic<std::int64_t> sum{0};
    team.parallel_for(100, 3, 7, [&](std::int64_t begin, std::int64_t end, int worker) {
      if (worker >= active) sum += 1000000;
      for (auto i = begin; i < end; ++i) sum += i;
    });
    ASSERT_EQ(sum, 4950) << round;
  }
  team.use(4);
  {
    const Team::Part part(team, 2);
    EXPECT_EQ(team.size(), 2);
  }
  EXPECT_EQ(team.size(), 4);
  team.use(1);
  EXPECT_THROW(team.use(5), std::logic_error);
}  // and ends with some that are left out

TEST(Team, ParallelForCoversEveryItemOnce) {
  Team team(3);
  for (std::int64_t n : {0, 1, 2, 63, 64, 65, 1000}) {
    for (std::int64_t grain : {1, 7, 64, 5000}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
      team.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, 3);
        for (auto i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)]++;
      });
      for (auto& h : hits) EXPECT_EQ(h, 1);
    }
  }
}

// The time of a worker, which only its own items make pass.
thread_local double worker_seconds = 0;

// A worker that takes thrice as long for an item gets a third of the others' items, and as many as they when it does
// not any more. Items are covered once all the while.
TEST(Team, SlowWorkersGetLess) {
  constexpr std::int64_t kItems = 120, kUnit = 2, kCalls = 16 * 15;
  for (const int threads : {2, 3}) {
    Team team(threads, [] { return worker_seconds; });
    const auto run = [&](int slow, double factor, std::int64_t first, std::int64_t grain) {
      std::vector<std::atomic<int>> hits(kItems + 1);
      std::vector<std::int64_t> of_worker(static_cast<std::size_t>(threads));
      team.parallel_by_speed(kItems + 1, grain, first, kUnit, [&](std::int64_t begin, std::int64_t end, int worker) {
        EXPECT_EQ(begin % kUnit, 0);
        worker_seconds += 1e-6 * static_cast<double>(end - begin) * (worker == slow ? factor : 1);
        of_worker[static_cast<std::size_t>(worker)] += end - begin;
        for (auto i = begin; i < end; ++i) hits[static_cast<std::size_t>(i)]++;
      });
      for (auto& h : hits) EXPECT_EQ(h, 1);
      return of_worker;
    };
    const std::int64_t all = (kItems + threads * kUnit) / (threads * kUnit) * kUnit;  // nothing is handed out later
    const auto equal = [&](std::vector<double> parts) {
      for (const double p : parts) EXPECT_NEAR(p, 1.0 / static_cast<double>(parts.size()), 1e-9) << threads;
    };
    equal(team.speeds());
    for (int call = 0; call < kCalls; ++call) run(1, 1.2, all, all);
    equal(team.speeds());  // too little to tell cores apart
    for (int call = 0; call < kCalls; ++call) run(1, 3, all, all);
    std::vector<double> parts = team.speeds();
    EXPECT_NEAR(3 * parts[1], parts[0], 1e-6) << threads;
    EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), 1.0, 1e-9);
    EXPECT_LT(run(1, 3, all, all)[1], run(1, 3, all, all)[0]);
    for (int call = 0; call < 50; ++call) run(1, 3, 20, 4);  // and pieces that are handed out besides
    for (int call = 0; call < 2 * kCalls; ++call) run(0, 100, all, all);
    parts = team.speeds();
    EXPECT_NEAR(4 * parts[0], parts[1], 1e-6) << "no worker gets less than a quarter of the fastest's";
    for (int call = 0; call < 2 * kCalls; ++call) run(-1, 1, all, all);
    equal(team.speeds());
    for (int call = 0; call < 2 * kCalls; ++call) run(1, 3, all, all);
    team.use(threads - 1);
    EXPECT_EQ(team.speeds().size(), static_cast<std::size_t>(threads - 1));
    run(-1, 1, all, all);
    equal(team.speeds());  // others are compared anew
  }
}

// Whatever each worker is given first: less than there is, all of it, more than there is for all of them.
TEST(Team, FirstPiecesBelongToTheirWorkers) {
  Team team(3);
  for (std::int64_t n : {1, 2, 63, 64, 65, 1000}) {
    for (std::int64_t first : {1, 20, 22, 64, 400}) {
      for (std::int64_t grain : {1, 7}) {
        std::vector<std::atomic<int>> worker_of(static_cast<std::size_t>(n));  // its number + 1
        std::atomic<int> again{0};
        team.parallel_for(n, grain, first, [&](std::int64_t begin, std::int64_t end, int worker) {
          if (end - begin > (begin == worker * first ? first : grain)) ++again;
          for (auto i = begin; i < end; ++i)
            if (worker_of[static_cast<std::size_t>(i)].exchange(worker + 1) != 0) ++again;
        });
        EXPECT_EQ(again, 0);
        for (std::int64_t i = 0; i < n; ++i) {
          EXPECT_GT(worker_of[static_cast<std::size_t>(i)], 0) << i;
          if (i < 3 * first && n > first) {
            EXPECT_EQ(worker_of[static_cast<std::size_t>(i)], i / first + 1) << n << " " << first << " " << i;
          }
        }
      }
    }
  }
}

TEST(Team, RefusesAbsurdSizes) {
  EXPECT_THROW(Team(0), Error);
  EXPECT_THROW(Team(-1), Error);
  EXPECT_THROW(Team(513), Error);
}

}  // namespace
}  // namespace kvasir
