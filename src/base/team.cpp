#include "base/team.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/threads.hpp"

namespace kvasir {
namespace {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A decode step forks and joins a few hundred times with a few microseconds between: waking a sleeping thread would
// cost more than the work. So a worker spins for about 50 us before it sleeps; between requests it costs nothing.
constexpr int kSpins = 2000;

// Who takes part in a call stands in the word that begins it: whoever comes late must not take the next call's number
// for this one's.
constexpr std::uint32_t kThreadBits = 1023, kNextCall = 1024;

// One call of so many is timed. A worker's part is the median over kLaps of them, so that threads that lost their core
// for a moment do not count; cores that differ by less than kAlike have equal parts, which is what equal cores need.
constexpr int kUntimed = 16, kLaps = 15;
constexpr double kAlike = 1.25, kLeastShare = 0.25;  // the latter of the fastest worker's

// Wakes those that wait for another value than the one before the last store. libstdc++ 12 asks first whether anybody
// waits, with a load that may overtake a store of release order: whoever begins to wait between the two would sleep on.
template <class T>
void wake(std::atomic<T>& value) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  value.notify_all();
}

}  // namespace

Team::Team(int threads, double (*seconds)()) : seconds_(seconds) {
  if (threads < 1 || threads > 512)
    throw Error(Code::kBadInput, std::to_string(threads) + " is outside 1..512", "threads");
  const auto count = static_cast<std::size_t>(threads);
  before_.resize(count + 1);
  laps_.resize(count);
  samples_.resize(kLaps * count);
  start_threads(
      workers_, threads - 1, "threads", [this](int i) { work(i + 1); }, [this] { stop(); });
  active_ = threads;
}

Team::~Team() {
  stop();
  join_all(workers_);
}

void Team::stop() {
  stop_.store(true, std::memory_order_relaxed);
  active_.store(0, std::memory_order_release);
  wake(active_);
  generation_.fetch_add(kNextCall, std::memory_order_release);
  wake(generation_);
}

void Team::use(int threads) {
  KVASIR_CHECK(threads >= 1 && threads <= most());
  if (active_.exchange(threads, std::memory_order_release) != threads) wake(active_);
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
    if (const int active = static_cast<int>(now & kThreadBits); worker >= active) {
      active_.wait(active, std::memory_order_acquire);
      continue;
    }
    take_part(job_, worker);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

void Team::run(FunctionRef<void(int)> f) { start({f, {}}); }

void Team::start(const Job& job) {
  const int active = size();
  if (active == 1) return take_part(job, 0);
  KVASIR_CHECK(pending_.load(std::memory_order_relaxed) == 0);
  job_ = job;
  pending_.store(active - 1, std::memory_order_relaxed);
  const std::uint32_t calls = generation_.load(std::memory_order_relaxed) & ~kThreadBits;
  generation_.store((calls + kNextCall) | static_cast<std::uint32_t>(active), std::memory_order_release);
  wake(generation_);
  take_part(job, 0);
  for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      pause_cpu();
    } else {
      std::this_thread::yield();  // a worker was descheduled: let it have this core
    }
  }
}

void Team::take_part(const Job& job, int worker) {
  if (job.call) return job.call(worker);
  std::int64_t begin = first_begin(job, worker), end = first_begin(job, worker + 1);
  if (job.timed) {
    const double start = seconds_();
    if (begin < std::min(end, job.n)) job.pieces(begin, std::min(end, job.n), worker);
    laps_[static_cast<std::size_t>(worker)] = {static_cast<double>(std::min(end, job.n) - begin), seconds_() - start};
    end = begin;
  }
  while (begin < job.n) {
    if (begin < end) job.pieces(begin, std::min(end, job.n), worker);
    if (job.first * size() >= job.n) return;  // nothing else to hand out: the counter need not travel
    begin = next_.fetch_add(job.grain, std::memory_order_relaxed);
    end = begin + job.grain;
  }
}

std::int64_t Team::first_begin(const Job& job, int worker) const {
  if (job.unit == 0) return worker * job.first;
  const std::int64_t all = job.first * size();
  if (worker == size()) return all;
  const double at = static_cast<double>(all / job.unit) * before_[static_cast<std::size_t>(worker)];
  return static_cast<std::int64_t>(at + 0.5) * job.unit;
}

void Team::parallel_for(std::int64_t n, std::int64_t grain, std::int64_t first, Pieces f) {
  if (n <= 0) return;
  if (n <= first || size() == 1) return f(0, n, 0);
  next_.store(size() * first, std::memory_order_relaxed);
  start({{}, f, n, grain, first});
}

void Team::parallel_by_speed(std::int64_t n, std::int64_t grain, std::int64_t first, std::int64_t unit, Pieces f) {
  if (n <= 0) return;
  if (n <= first || size() == 1) return f(0, n, 0);
  if (compared_ != size()) forget_speeds();
  const bool timed = ++calls_ >= kUntimed;
  next_.store(size() * first, std::memory_order_relaxed);
  start({{}, f, n, grain, first, unit, timed});
  if (timed) note_laps();
}

void Team::forget_speeds() {
  compared_ = size();
  for (int w = 0; w <= compared_; ++w) before_[static_cast<std::size_t>(w)] = static_cast<double>(w) / compared_;
  taken_ = calls_ = 0;
}

// The worker's median.
double Team::part(std::size_t worker) {
  std::array<double, kLaps> all;
  for (std::size_t i = 0; i < kLaps; ++i) all[i] = samples_[i * laps_.size() + worker];
  std::nth_element(all.begin(), all.begin() + kLaps / 2, all.end());
  return all[kLaps / 2];
}

void Team::note_laps() {
  calls_ = 0;
  const auto workers = static_cast<std::size_t>(compared_);
  double sum = 0;
  for (std::size_t w = 0; w < workers; ++w) {
    if (laps_[w].items <= 0 || laps_[w].seconds <= 0) return;  // too little work to say anything
    sum += laps_[w].items / laps_[w].seconds;
  }
  double* const sample = samples_.data() + static_cast<std::size_t>(taken_) * laps_.size();
  for (std::size_t w = 0; w < workers; ++w)  // parts, because the items of other calls have other sizes
    sample[w] = laps_[w].items / laps_[w].seconds / sum;
  if (++taken_ < kLaps) return;
  taken_ = 0;
  double least = part(0), most = least, all = 0;
  for (std::size_t w = 1; w < workers; ++w) {
    least = std::min(least, part(w));
    most = std::max(most, part(w));
  }
  const double floor = most < kAlike * least ? most : kLeastShare * most;
  for (std::size_t w = 0; w < workers; ++w) all += std::max(part(w), floor);
  for (std::size_t w = 0; w < workers; ++w) before_[w + 1] = before_[w] + std::max(part(w), floor) / all;
}

std::vector<double> Team::speeds() const {
  std::vector<double> parts;
  for (int w = 0; w < size(); ++w) {
    const auto i = static_cast<std::size_t>(w);
    parts.push_back(compared_ == size() ? before_[i + 1] - before_[i] : 1.0 / size());
  }
  return parts;
}

}  // namespace kvasir
