// A persistent team of threads, passed explicitly. Work is split by data; results never depend on the split.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/function_ref.hpp"

namespace kvasir {

class Team {
 public:
  // `threads` >= 1 counts the calling thread. Throws Error(kBadInput) outside 1..512, Error(kMemory) when the
  // system refuses a thread.
  // seconds: what parallel_by_speed takes the time with, by each worker for itself; tests give their own.
  explicit Team(int threads, double (*seconds)() = steady_seconds);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // Threads that work takes: all of them, or as many as use() said.
  int size() const { return active_.load(std::memory_order_relaxed); }
  int most() const { return static_cast<int>(workers_.size()) + 1; }
  // What comes next has so many threads, 1 to most(); the others sleep. As run(), by one thread at a time.
  void use(int threads);
  // The same until it goes. What is made meanwhile for size() threads must not be used afterwards.
  class Part {
   public:
    Part(Team& team, int threads) : team_(team), before_(team.size()) { team_.use(threads); }
    ~Part() { team_.use(before_); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    Team& team_;
    const int before_;
  };

  // Calls f(worker) once on every thread, worker in [0, size()), and returns when all have returned. f must not throw.
  // REQUIRES: called by one thread at a time, not from inside f.
  void run(FunctionRef<void(int worker)> f);

  using Pieces = FunctionRef<void(std::int64_t begin, std::int64_t end, int worker)>;
  // Calls f(begin, end, worker) on pieces that cover [0, n): each worker w first gets [w * first, (w + 1) * first),
  // then pieces of `grain` items are handed out in increasing order to whoever is free. A team of one gets everything
  // in one piece.
  void parallel_for(std::int64_t n, std::int64_t grain, std::int64_t first, Pieces f);
  void parallel_for(std::int64_t n, std::int64_t grain, Pieces f) { parallel_for(n, grain, grain, f); }
  // The same, but first pieces are as long as their workers are fast: multiples of `unit`, together size() * first.
  void parallel_by_speed(std::int64_t n, std::int64_t grain, std::int64_t first, std::int64_t unit, Pieces f);
  // Of the work that parallel_by_speed gives out first, the part of each of size() workers.
  std::vector<double> speeds() const;

 private:
  // A call for every worker, or n items in pieces.
  struct Job {
    FunctionRef<void(int)> call;
    Pieces pieces;
    std::int64_t n = 0, grain = 0, first = 0;
    std::int64_t unit = 0;  // 0: first pieces are equal
    bool timed = false;
  };
  // Of one worker, in lines of its own.
  struct alignas(64) Lap {
    double items = 0, seconds = 0;  // of its first piece, when the job was timed
  };
  std::int64_t first_begin(const Job& job, int worker) const;
  void forget_speeds();
  void note_laps();
  double part(std::size_t worker);
  void work(int worker);
  void start(const Job& job);
  void take_part(const Job& job, int worker);
  void stop();  // makes the workers return

  std::vector<std::thread> workers_;
  std::atomic<int> active_{1};  // what use() said; those that are left out wait for another number
  // Where cores do not share a cache, a line that another one wrote takes long to come (0.5 us there and back on a
  // Zen 4). So what a worker reads to begin lies in two lines beside each other.
  alignas(128) std::atomic<std::uint32_t> generation_{0};  // calls so far, and in kThreadBits how many take part
  Job job_;                                                // valid while pending_ > 0
  alignas(64) std::atomic<int> pending_{0};
  alignas(64) std::atomic<std::int64_t> next_{0};
  std::atomic<bool> stop_{false};

  double (*const seconds_)();

  // What parallel_by_speed goes by. Read by all in a call, written between calls; with room for most().
  int compared_ = 0;            // workers that it is of
  std::vector<double> before_;  // (compared_ + 1): parts of the workers before one, summed
  std::vector<Lap> laps_;
  std::vector<double> samples_;  // (kLaps, most()): parts of the workers in calls that were timed
  int taken_ = 0;                // of them
  int calls_ = 0;                // since the last
};

}  // namespace kvasir
