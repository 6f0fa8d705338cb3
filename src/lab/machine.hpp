// What this machine can do at best with a given team of threads: the measures that benchmarks are held against.
#pragma once

#include <cstdint>
#include <memory>

#include "base/host.hpp"
#include "base/team.hpp"
#include "simd/isa.hpp"

namespace kvasir::lab {

// A rate from several runs, to be divided by `median`. On a machine that does other work too it is too low, and a
// fraction of it too good: then cpu_share is below 1, or low and high are far apart.
struct Figure {
  double median = 0;
  double low = 0;
  double high = 0;
  double cpu_share = 0;  // processor time that the threads got / (threads * time on the clock), over all runs
};

inline constexpr double kUndisturbed =
    0.95;  // cpu_share below it: other processes were running, say so beside the figure

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

  // Bytes per second: each thread reads its own contiguous part of one buffer (huge pages where the system grants them,
  // first written by the thread that reads it) in that of the ways of kernel/streaming.hpp whose median is highest.
  // Nothing is written. Always with the widest instruction set of the machine, since it describes the memory, not the
  // kernels. One run reads the buffer once.
  Figure read_bytes;
  std::uint64_t buffer_bytes = 0;
  bool beyond_cache = false;  // the buffer is at least twice the last-level cache, so `read_bytes` is of main memory

  // Operations per second, a multiply-add counting 2, on registers only (kernel/peak.hpp says which instructions).
  Figure int8_ops;
  Figure bf16_ops;
  Figure f32_ops;

  // Seconds in which the team starts something that is nothing and all threads have ended it, median. Two threads of a
  // Zen 4: 0.1 us while memory gives 31 to 37 GB/s, 0.4 us while it gives 50 to 63, which changes within seconds on a
  // virtual machine, most likely as its cores move: those that share a cache share a link to memory.
  double meeting = 0;
};

// Takes about 2.5 s (quick: 0.4 s), of which the most is for the buffer. Throws Error(kMemory) when less than 64 MiB
// can be had for it. REQUIRES: nobody else uses the team.
Machine measure_machine(Team& team, const MeasureOptions& options = {});

// One measurement of each of Machine's rates.
struct Rates {
  double read_bytes = 0;
  double int8_ops = 0;
  double bf16_ops = 0;
  double f32_ops = 0;
  double meeting = 0;  // seconds
};

// Measures the machine between runs of something else. Memory and processors that are shared change their speed within
// seconds, so what a run is held against has to be measured right before and after it.
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
  Rates sample();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace kvasir::lab
