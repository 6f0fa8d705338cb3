#include "base/team.hpp"

#include <algorithm>
#include <string>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/threads.hpp"

namespace kvasir {
namespace {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A decode step forks and joins a few hundred times with a few microseconds between: waking a sleeping thread would
// cost more than the work. So a worker spins for about 50 us before it sleeps; between requests it costs nothing.
constexpr int kSpins = 2000;

}  // namespace

Team::Team(int threads) {
  if (threads < 1 || threads > 512)
    throw Error(Code::kBadInput, std::to_string(threads) + " is outside 1..512", "threads");
  start_threads(
      workers_, threads - 1, "threads", [this](int i) { work(i + 1); }, [this] { stop(); });
}

Team::~Team() {
  stop();
  join_all(workers_);
}

void Team::stop() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void Team::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    std::uint32_t now = generation_.load(std::memory_order_acquire);
    for (int spin = 0; now == seen && spin < kSpins; ++spin) {
      pause_cpu();
      now = generation_.load(std::memory_order_acquire);
    }
    while (now == seen) {
      generation_.wait(seen, std::memory_order_acquire);
      now = generation_.load(std::memory_order_acquire);
    }
    seen = now;
    if (stop_.load(std::memory_order_relaxed)) return;
    (*job_)(worker);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

void Team::run(FunctionRef<void(int)> f) {
  if (workers_.empty()) return f(0);
  KVASIR_CHECK(pending_.load(std::memory_order_relaxed) == 0);
  job_ = &f;
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  f(0);
  for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // a worker was descheduled: let it have this core
    }
  }
}

void Team::parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t, int)> f) {
  if (n <= 0) return;
  if (n <= grain || workers_.empty()) return f(0, n, 0);
  next_.store(0, std::memory_order_relaxed);
  run([&](int worker) {
    for (;;) {
      const std::int64_t begin = next_.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      f(begin, std::min(begin + grain, n), worker);
    }
  });
}

}  // namespace kvasir
