// The limits of this machine with a given team of threads. Benchmarks are compared with them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/host.hpp"
#include "base/team.hpp"
#include "simd/isa.hpp"

namespace kvasir::lab {

// A rate from several runs. A benchmark divides its own rate by `median`. If the machine has other work, the median is
// too low and the quotient is too good. This shows: cpu_share is below 1, or low and high are far apart.
struct Figure {
  double median = 0;
  double low = 0;
  double high = 0;
  double cpu_share = 0;  // processor time that the threads got / (threads * time on the clock), over all runs
};

// With a cpu_share below this, other processes were running. Say so beside the figure.
inline constexpr double kUndisturbed = 0.95;

struct MeasureOptions {
  // Quick: 3 runs of about 15 ms and a buffer of 256 MiB, which a large last-level cache may answer in part (see
  // Machine::beyond_cache). Otherwise 7 runs of about 50 ms and a buffer of at least 1 GiB and 4 times the last-level
  // cache. Neither takes more than a quarter of the memory that is available.
  bool quick = false;
};

// All figures are totals of the team's threads working at the same time, from the moment they start to the moment the
// last one ends. Runs are long enough that starting and joining the team (a few us) does not show.
struct Machine {
  Host host;
  int threads = 0;
  simd::Isa isa{};  // of the arithmetic figures: the active one

  // Bytes read per second. One run reads a buffer once. Each thread reads a contiguous part that it wrote itself; the
  // buffer has huge pages if the system grants them. The figure is of the way to read (kernel/streaming.hpp) with the
  // highest median. It describes the memory, not the kernels, so it is always measured with the machine's widest
  // instruction set.
  Figure read_bytes;
  std::uint64_t buffer_bytes = 0;
  bool beyond_cache = false;  // the buffer is at least twice the last-level cache, so `read_bytes` is of main memory

  // Operations per second, a multiply-add counting 2, on registers only (kernel/peak.hpp says which instructions).
  Figure int8_ops;
  Figure bf16_ops;
  Figure f32_ops;
  // The same of the tiles of AMX (kernel/tiles.hpp); 0 where the set in use has none.
  Figure int8_tiles;
  Figure bf16_tiles;

  // Seconds that the team takes to run an empty function on all threads, median. Two threads of a Zen 4 need 0.1 us
  // while memory gives 31 to 37 GB/s, and 0.4 us while it gives 50 to 63. On a virtual machine this changes within
  // seconds. Most likely its cores move then: cores that share a cache also share a link to memory.
  double meeting = 0;
};

// Takes about 2.5 s (quick: 0.4 s), most of it for the buffer. Throws Error(kMemory) if the buffer would have less than
// 64 MiB. REQUIRES: nobody else uses the team.
Machine measure_machine(Team& team, const MeasureOptions& options = {});

// Bytes per second with which the team reads memory that is there and was read before, the weights of a model: 3 runs
// of each way over 256 MiB of it at most (2 MiB a thread, if that is more), as Machine::read_bytes, without memory of
// its own. What is smaller than 2 MiB a thread says little, so a buffer is read in its place. Throws Error(kMemory) as
// measure_machine. REQUIRES: as there; memory aligned to 64 bytes.
Figure measure_reads(Team& team, std::span<const std::byte> memory);

// One measurement of each of Machine's rates.
struct Rates {
  double read_bytes = 0;
  double int8_ops = 0;
  double bf16_ops = 0;
  double f32_ops = 0;
  double int8_tiles = 0;
  double bf16_tiles = 0;
  double meeting = 0;  // seconds
};

// By the clock, and per second of a thread's processor time, times the threads: what the machine would do for us alone,
// if others do not keep its memory busy too.
struct RatesOfRun {
  Rates clock, cpu;
};

// Measures the machine between runs of a benchmark. Shared memory and processors change their speed within seconds. So
// the limits that a run is compared with are measured right before and after the run.
class Probe {
 public:
  // Makes the buffer, of at least 256 MiB and 4 times the last-level cache but no more than a quarter of the memory
  // that is available, which takes about 0.1 s. Throws like measure_machine. REQUIRES: the team outlives this.
  explicit Probe(Team& team);
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Reads the buffer three times and computes three times 15 ms; nothing of what caches held is there afterwards.
  // REQUIRES: nobody else uses the team.
  RatesOfRun sample();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace kvasir::lab
