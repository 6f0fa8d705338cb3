// Speed of prefill and decode at given depths, held against what the machine can do.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kv/options.hpp"
#include "lab/machine.hpp"
#include "run/engine.hpp"

namespace kvasir::lab {

struct BenchOptions {
  std::int32_t prefill = 512;  // tokens per prefill run; 0: none
  std::int32_t decode = 64;    // tokens per decode run; 0: none
  std::int32_t runs = 5;
  // Fill the cache with copies of the pages that the first fill_seed tokens made. Speed depends on how many bytes are
  // read, not on what they say, so this measures the same in a fraction of the time.
  bool fill = false;
  std::vector<std::int64_t> batches{1};  // sequences that decode together, with the same sealed pages; one row each
};

// Tokens that are computed for `fill`: as few as have two sealed pages, and one more than any layer's window shows.
std::int64_t fill_seed(const run::EngineOptions& options, const kv::CacheShape& shape);

// Runs of one kind: median tokens per second and (highest - lowest) / median. cpu_tps is the median of tokens per
// second of processor time, of all threads together and with what they wait for each other: on a machine that others
// use it says more than the clock does.
struct Rate {
  double tps = 0;
  double spread = 0;
  double cpu_tps = 0;
};

struct BenchRow {
  std::int64_t depth = 0;  // tokens in the cache before every run
  std::int64_t batch = 1;
  bool filled = false;   // with copies of pages
  Rate prefill, decode;  // prefill only with a batch of 1
  // The machine between the runs (medians). Fractions are medians, too, of each run held against what was measured
  // right before and after it.
  Rates machine;
  // Decode: bytes of weights and KV read per token (counted from the packed sizes; a batch reads weights once for all
  // its tokens), what that is per second, and of the machine's read bandwidth.
  double bytes_per_token = 0;
  double bandwidth = 0;
  double bandwidth_fraction = 0;
  // Decode: the least time of a step, by bytes over bandwidth or operations over the peaks, over the time it took.
  double decode_floor_fraction = 0;
  // The same of processor time: the least that the threads would need by what the machine does per second of it.
  double decode_floor_fraction_cpu = 0;
  // Decode with a selector: share of the time that choosing took, and the share of the tokens that was read.
  double choosing_fraction = 0;
  double read_fraction = 1;
  // Decode with weights that are streamed: of all runs, and their seconds and steps.
  weights::StreamStats streamed;
  double streamed_seconds = 0;
  std::int64_t streamed_steps = 0;
  // Decode with pages on a disk, per token: bytes read from it, seconds that threads waited for it; of the pages that
  // were wanted the share that was in memory.
  double disk_bytes = 0;
  double disk_stall = 0;
  double disk_hits = 1;
  // Prefill: operations per token (2 per multiply-add; matrices and attention, the output matrix once per run) and the
  // time they would take at the machine's peaks of the arithmetic they are computed in (integer dots for quantised
  // matrices, bf16 dots or f32 for others; f32 for attention, integer dots where it multiplies packed bytes) over the
  // time they took.
  double ops_per_token = 0;
  double peak_fraction = 0;
  double peak_fraction_cpu = 0;   // the same of processor time
  double kv_bytes_per_token = 0;  // sealed, as allocated
  double ttft = 0;                // seconds from the first token of a prefill run to its logits
  std::uint64_t resident_bytes = 0;
};

// What pages on a disk cost, in a sentence.
std::string disk_line(const kv::DiskStats& stats);

// Fills a sequence to each depth in turn (ascending, with arbitrary tokens) and measures runs on forks of it, which are
// thrown away. `engine` needs a sequence more than the largest batch, as many rows of logits as that, and a context of
// at least the deepest depth + max(prefill, decode); with `fill` fill_seed more. `poll` is asked between runs
// and may stop the measurement. Calls `row` for each depth and batch.
void bench(run::Engine& engine, const BenchOptions& options, std::vector<std::int64_t> depths,
           const std::function<void(const BenchRow&)>& row, const std::function<bool()>& poll);

}  // namespace kvasir::lab
