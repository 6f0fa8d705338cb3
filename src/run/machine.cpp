#include "run/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "kernel/peak.hpp"

namespace kvasir::run {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

struct alignas(64) Slot {  // a cache line per thread, so that results do not share one
  std::int64_t operations = 0;
  std::uint64_t sum = 0;
  double cpu_seconds = 0;
  float sink = 0;
};

// Runs of the whole team and what became of them.
class Runs {
 public:
  explicit Runs(Team& team) : team_(team), slots_(static_cast<std::size_t>(team.size())) {}

  // Calls work(worker, slot) on every thread; returns seconds from the start of the first to the end of the last.
  double once(FunctionRef<void(std::size_t worker, Slot& slot)> work) {
    const double start = steady_seconds();
    team_.run([&](int worker) {
      const auto w = static_cast<std::size_t>(worker);
      const double cpu_start = thread_cpu_seconds();
      work(w, slots_[w]);
      slots_[w].cpu_seconds = thread_cpu_seconds() - cpu_start;
    });
    return steady_seconds() - start;
  }

  double operations() const {
    double sum = 0;
    for (const Slot& slot : slots_) sum += static_cast<double>(slot.operations);
    return sum;
  }

  // Counts the last run, which did `amount` in `seconds`.
  void count(double amount, double seconds) {
    rates_.push_back(amount / seconds);
    clock_ += seconds * static_cast<double>(slots_.size());
    for (const Slot& slot : slots_) cpu_ += slot.cpu_seconds;
  }

  Figure figure() {
    std::sort(rates_.begin(), rates_.end());
    return {rates_[rates_.size() / 2], rates_.front(), rates_.back(), cpu_ / clock_};
  }

 private:
  Team& team_;
  std::vector<Slot> slots_;
  std::vector<double> rates_;
  double clock_ = 0, cpu_ = 0;
};

using ArithmeticLoop = std::int64_t (*)(std::int64_t rounds, float* sink);

Figure measure_operations(Team& team, ArithmeticLoop loop, int runs, double seconds) {
  Runs measured(team);
  std::int64_t rounds = 256;
  const auto work = [&](std::size_t, Slot& slot) { slot.operations = loop(rounds, &slot.sink); };
  // Find the rounds that fill the time; this also brings the cores to their working frequency.
  double took = measured.once(work);
  while (took < seconds / 4) {
    rounds *= 2;
    took = measured.once(work);
  }
  rounds = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(rounds) * seconds / took));
  for (int i = 0; i < runs; ++i) {
    const double time = measured.once(work);
    measured.count(measured.operations(), time);
  }
  return measured.figure();
}

// Anonymous memory that goes back to the system at once, which a heap may not do.
class Pages {
 public:
  explicit Pages(std::uint64_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED)
      throw Error(Code::kMemory, "the system refused " + std::to_string(bytes >> 20) + " MiB", "bandwidth measurement");
    madvise(data_, bytes, MADV_HUGEPAGE);  // a hint; without it page walks are part of the measure
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::byte* data() { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_;
};

const kernel::PeakKernels& widest_kernels() {
  if (simd::supported(simd::Isa::kAvx512Vnni)) return kernel::avx512vnni::peak_table;
  if (simd::supported(simd::Isa::kAvx512)) return kernel::avx512::peak_table;
  if (simd::supported(simd::Isa::kAvx2)) return kernel::avx2::peak_table;
  return kernel::scalar::peak_table;
}

std::uint64_t buffer_size(const Host& host, bool quick) {
  std::uint64_t wanted = quick ? 256 * kMiB : std::max(1024 * kMiB, 4 * host.last_level_cache());
  if (host.memory_available > 0) wanted = std::min(wanted, host.memory_available / 4);
  if (wanted < 64 * kMiB)
    throw Error(Code::kMemory,
                std::to_string(host.memory_available >> 20) + " MiB are available, expected at least 256 MiB",
                "bandwidth measurement");
  return wanted;
}

void measure_bandwidth(Team& team, int runs, Machine& machine) {
  constexpr std::uint64_t kUnit = 2 * kMiB;  // a huge page; also a multiple of what `read` asks for
  const auto threads = static_cast<std::uint64_t>(team.size());
  const std::uint64_t part = std::max(kUnit, machine.buffer_bytes / threads / kUnit * kUnit);
  machine.buffer_bytes = part * threads;
  machine.beyond_cache = machine.buffer_bytes >= 2 * machine.host.last_level_cache();
  Pages pages(machine.buffer_bytes);
  Runs ahead(team), plain(team);
  ahead.once([&](std::size_t w, Slot&) { std::memset(pages.data() + part * w, static_cast<int>(w) + 1, part); });
  const kernel::PeakKernels& kernels = widest_kernels();
  const auto count = [&](Runs& measured, auto reader) {
    const double seconds =
        measured.once([&](std::size_t w, Slot& slot) { slot.sum = reader(pages.data() + part * w, part); });
    measured.count(static_cast<double>(machine.buffer_bytes), seconds);
  };
  Runs warm_up(team);
  count(warm_up, kernels.read);
  for (int i = 0; i < runs; ++i) {  // in turns: bandwidth drifts
    count(ahead, kernels.read);
    count(plain, kernels.read_plain);
  }
  const Figure figures[] = {ahead.figure(), plain.figure()};
  machine.read_bytes = figures[figures[1].median > figures[0].median ? 1 : 0];
}

}  // namespace

Machine measure_machine(Team& team, const MeasureOptions& options) {
  Machine machine;
  machine.host = describe_host();
  machine.threads = team.size();
  machine.isa = simd::active();
  machine.buffer_bytes = buffer_size(machine.host, options.quick);
  const int runs = options.quick ? 3 : 7;
  const double seconds = options.quick ? 0.015 : 0.05;
  measure_bandwidth(team, runs, machine);
  const kernel::PeakKernels& kernels = kernel::peak();
  machine.int8_ops = measure_operations(team, kernels.int8_dot, runs, seconds);
  machine.bf16_ops = measure_operations(team, kernels.bf16_dot, runs, seconds);
  machine.f32_ops = measure_operations(team, kernels.f32_fma, runs, seconds);
  return machine;
}

}  // namespace kvasir::run
