#include "lab/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "kernel/peak.hpp"
#include "kernel/tiles.hpp"

namespace kvasir::lab {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr double kQuickSeconds = 0.015;

struct alignas(64) Slot {  // a cache line per thread, so that results do not share one
  std::int64_t operations = 0;
  std::uint64_t sum = 0;
  double cpu_seconds = 0;
  float kept = 0;
};

// Of one run, as RatesOfRun.
struct TwoRates {
  double clock = 0, cpu = 0;
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
  TwoRates count(double amount, double seconds) {
    const auto threads = static_cast<double>(slots_.size());
    double cpu = 0;
    for (const Slot& slot : slots_) cpu += slot.cpu_seconds;
    rates_.push_back(amount / seconds);
    clock_ += seconds * threads;
    cpu_ += cpu;
    return {amount / seconds, amount * threads / cpu};
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

using ArithmeticLoop = std::int64_t (*)(std::int64_t rounds, float* kept);

// Operations per second of the whole team, `seconds` a run.
class Arithmetic {
 public:
  // Without a loop the rate is 0.
  Arithmetic(Team& team, ArithmeticLoop loop, double seconds) : runs_(team), loop_(loop) {
    if (!loop) return;
    // Find the rounds that fill the time; this also brings the cores to their working frequency.
    double took = once();
    while (took < seconds / 4) {
      rounds_ *= 2;
      took = once();
    }
    rounds_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(rounds_) * seconds / took));
  }

  TwoRates rate() {
    if (!loop_) return {};
    const double seconds = once();
    return runs_.count(runs_.operations(), seconds);
  }

  Figure figure() { return loop_ ? runs_.figure() : Figure(); }

 private:
  double once() {
    return runs_.once([this](std::size_t, Slot& slot) { slot.operations = loop_(rounds_, &slot.kept); });
  }

  Runs runs_;
  ArithmeticLoop loop_;
  std::int64_t rounds_ = 256;
};

double measure_meeting(Team& team) {
  constexpr int kMeetings = 20;  // more than a reading of the clock takes
  std::vector<double> seconds;
  for (int i = 0; i < 101; ++i) {
    const double start = steady_seconds();
    for (int j = 0; j < kMeetings; ++j) team.run([](int) {});
    seconds.push_back((steady_seconds() - start) / kMeetings);
  }
  std::nth_element(seconds.begin(), seconds.begin() + 50, seconds.end());
  return seconds[50];
}

ArithmeticLoop tile_loop(ArithmeticLoop kernel::TileKernels::*loop) {
  const kernel::TileKernels* const tiles = kernel::tiles_in_use();
  return tiles ? tiles->*loop : nullptr;
}

Figure measure_operations(Team& team, ArithmeticLoop loop, int runs, double seconds) {
  Arithmetic measured(team, loop, seconds);
  for (int i = 0; i < runs; ++i) measured.rate();
  return measured.figure();
}

// Anonymous memory that goes back to the system at once, which a heap may not do.
class Pages {
 public:
  explicit Pages(std::uint64_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED)
      throw Error(Code::kMemory, "the system refused " + std::to_string(bytes >> 20) + " MiB", "bandwidth measurement");
#if defined(MADV_HUGEPAGE)
    madvise(data_, bytes, MADV_HUGEPAGE);  // a hint; without it page walks are part of the measure
#endif
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
  simd::Isa widest = simd::kIsas[0];
  for (const simd::Isa isa : simd::kIsas)
    if (simd::supported(isa)) widest = isa;
  return kernel::peak_of(widest);
}

// What is wanted, but no more than a quarter of the memory that is available.
std::uint64_t buffer_size(const Host& host, std::uint64_t wanted) {
  if (host.memory_available > 0) wanted = std::min(wanted, host.memory_available / 4);
  if (wanted < 64 * kMiB)
    throw Error(Code::kMemory,
                std::to_string(host.memory_available >> 20) + " MiB are available, expected at least 256 MiB",
                "bandwidth measurement");
  return wanted;
}

// Reads a buffer with all threads in every way there is: which is fastest depends on the processor.
class Memory {
 public:
  Memory(Team& team, std::uint64_t bytes)
      : part_(std::max(kUnit, bytes / static_cast<std::uint64_t>(team.size()) / kUnit * kUnit)),
        bytes_(part_ * static_cast<std::uint64_t>(team.size())),
        pages_(std::make_unique<Pages>(bytes_)),
        data_(pages_->data()),
        ways_(kernel::kStreamings, Runs(team)) {
    Runs warm_up(team);
    std::byte* const own = pages_->data();
    warm_up.once([&](std::size_t w, Slot&) { std::memset(own + part_ * w, static_cast<int>(w) + 1, part_); });
    read(warm_up, widest_kernels().read[0]);
  }

  // What is there. REQUIRES: kUnit for each thread.
  Memory(Team& team, std::span<const std::byte> memory)
      : part_(memory.size() / static_cast<std::size_t>(team.size()) / kUnit * kUnit),
        bytes_(part_ * static_cast<std::uint64_t>(team.size())),
        data_(memory.data()),
        ways_(kernel::kStreamings, Runs(team)) {}

  std::uint64_t bytes() const { return bytes_; }

  TwoRates rate() {
    TwoRates best;
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      const TwoRates now = read(ways_[i], widest_kernels().read[i]);
      best = {std::max(best.clock, now.clock), std::max(best.cpu, now.cpu)};
    }
    return best;
  }

  Figure figure() {
    Figure best;
    for (Runs& way : ways_)
      if (const Figure figure = way.figure(); figure.median > best.median) best = figure;
    return best;
  }

  static constexpr std::uint64_t kUnit = 2 * kMiB;  // a huge page; also a multiple of what `read` asks for

 private:
  template <class Reader>
  TwoRates read(Runs& measured, Reader reader) {
    const double seconds =
        measured.once([&](std::size_t w, Slot& slot) { slot.sum = reader(data_ + part_ * w, part_); });
    return measured.count(static_cast<double>(bytes_), seconds);
  }

  std::uint64_t part_, bytes_;
  std::unique_ptr<Pages> pages_;
  const std::byte* data_;
  std::vector<Runs> ways_;
};

}  // namespace

Machine measure_machine(Team& team, const MeasureOptions& options) {
  Machine machine;
  machine.host = describe_host();
  machine.threads = team.size();
  machine.isa = simd::active();
  const int runs = options.quick ? 3 : 7;
  const double seconds = options.quick ? kQuickSeconds : 0.05;
  {
    const std::uint64_t wanted =
        options.quick ? 256 * kMiB : std::max(1024 * kMiB, 4 * machine.host.last_level_cache());
    Memory memory(team, buffer_size(machine.host, wanted));
    for (int i = 0; i < runs; ++i) memory.rate();
    machine.read_bytes = memory.figure();
    machine.buffer_bytes = memory.bytes();
    machine.beyond_cache = machine.buffer_bytes >= 2 * machine.host.last_level_cache();
  }
  const kernel::PeakKernels& kernels = kernel::peak();
  machine.int8_ops = measure_operations(team, kernels.int8_dot, runs, seconds);
  machine.bf16_ops = measure_operations(team, kernels.bf16_dot, runs, seconds);
  machine.f32_ops = measure_operations(team, kernels.f32_fma, runs, seconds);
  machine.int8_tiles = measure_operations(team, tile_loop(&kernel::TileKernels::int8_peak), runs, seconds);
  machine.bf16_tiles = measure_operations(team, tile_loop(&kernel::TileKernels::bf16_peak), runs, seconds);
  machine.meeting = measure_meeting(team);
  return machine;
}

Figure measure_reads(Team& team, std::span<const std::byte> memory) {
  const std::uint64_t least = static_cast<std::uint64_t>(team.size()) * Memory::kUnit;
  const std::uint64_t most = std::max(256 * kMiB, least);  // of larger models a part says it, too
  Memory measured = memory.size() >= least ? Memory(team, memory.first(std::min<std::size_t>(memory.size(), most)))
                                           : Memory(team, buffer_size(describe_host(), most));
  for (int i = 0; i < 3; ++i) measured.rate();
  return measured.figure();
}

class Probe::State {
 public:
  State(Team& of, std::uint64_t bytes)
      : team(of),
        memory(team, bytes),
        int8(team, kernel::peak().int8_dot, kQuickSeconds),
        bf16(team, kernel::peak().bf16_dot, kQuickSeconds),
        f32(team, kernel::peak().f32_fma, kQuickSeconds),
        int8_tiles(team, tile_loop(&kernel::TileKernels::int8_peak), kQuickSeconds),
        bf16_tiles(team, tile_loop(&kernel::TileKernels::bf16_peak), kQuickSeconds) {}

  Team& team;
  Memory memory;
  Arithmetic int8, bf16, f32, int8_tiles, bf16_tiles;
};

Probe::Probe(Team& team) {
  const Host host = describe_host();
  state_ = std::make_unique<State>(team, buffer_size(host, std::max(256 * kMiB, 4 * host.last_level_cache())));
}

Probe::~Probe() = default;

RatesOfRun Probe::sample() {
  const TwoRates read = state_->memory.rate(), int8 = state_->int8.rate(), bf16 = state_->bf16.rate(),
                 f32 = state_->f32.rate(), int8_tiles = state_->int8_tiles.rate(),
                 bf16_tiles = state_->bf16_tiles.rate();
  const double meeting = measure_meeting(state_->team);
  return {{read.clock, int8.clock, bf16.clock, f32.clock, int8_tiles.clock, bf16_tiles.clock, meeting},
          {read.cpu, int8.cpu, bf16.cpu, f32.cpu, int8_tiles.cpu, bf16_tiles.cpu, meeting}};
}

}  // namespace kvasir::lab
