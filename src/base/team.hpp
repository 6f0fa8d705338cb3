// A persistent team of threads, passed explicitly. Work is split by data; results never depend on the split.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/function_ref.hpp"

namespace kvasir {

class Team {
 public:
  // `threads` >= 1 counts the calling thread. Throws Error(kBadInput) outside 1..512, Error(kMemory) when the
  // system refuses a thread.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls f(worker) once on every thread, worker in [0, size()), and returns when all have returned. f must not throw.
  // REQUIRES: called by one thread at a time, not from inside f.
  void run(FunctionRef<void(int worker)> f);

  // Calls f(begin, end, worker) on pieces of at most `grain` items that cover [0, n), handed out in increasing order to
  // whoever is free. A team of one gets everything in one piece, whatever the grain.
  void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t, int)> f);

 private:
  void work(int worker);
  void stop();  // makes the workers return

  std::vector<std::thread> workers_;
  const FunctionRef<void(int)>* job_ = nullptr;  // valid while pending_ > 0
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<int> pending_{0};
  alignas(64) std::atomic<std::int64_t> next_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace kvasir
