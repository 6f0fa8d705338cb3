// What the choices of a step's rows hold of dense attention's mass, what follows from it (the floor, a share that
// moves), and the figures of what was read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kv/head_fold.hpp"
#include "select/ask.hpp"

namespace kvasir::select {

class Meter {
 public:
  Meter(const kv::Arena& arena, const SelectMemory& memory, const SelectScratch& scratch);

  // Shares of the mass of dense attention, mean over the rows: question(worker).units, by `unit` tokens of the sealed
  // pages, and *always of what no selector leaves out, sinks and raw tokens.
  void measure(const kv::LayerStep& step, const kv::Part& part, int head, int worker, int unit, double* always) const;
  // The same of pages that are given.
  void measure(const kv::LayerStep& step, const kv::Part& part, const kv::PageList& pages, int head, int worker,
               int unit, double* always) const;
  // What the runs of a head hold, and what the best choice of as many blocks does.
  void measure_choice(const kv::LayerStep& step, const kv::Part& part, int head, int worker) const;
  // Where choices hold too little the part reads everything.
  void check_floor(const kv::LayerStep& step, kv::Plan& plan);
  // SelectSpec::p, or what became of it in this layer by what was measured before. Prompts have it as it is.
  double share_wanted(const kv::LayerStep& step, const kv::Part& part) const;
  // voting: bytes that were read to choose.
  void count(const kv::LayerStep& step, const kv::Part& part, std::size_t voting);

  // Sealed bytes and summaries that a selector had this sequence's last step read.
  std::size_t bytes_read(const kv::Sequence& s) const { return of(s).bytes; }
  // The sequence's last step left pages out from that position on; kAllExact: it did not.
  std::int64_t left_out_from(const kv::Sequence& s) const { return of(s).sparse_from; }
  void begin_step(const kv::Sequence& s) { of(s).bytes = 0, of(s).sparse_from = kv::kAllExact; }
  // Since the sequence was made.
  const kv::SelectionStats& stats(const kv::Sequence& s) const { return of(s).stats; }
  void set_stats(const kv::Sequence& s, const kv::SelectionStats& to) { of(s).stats = to; }
  void reset_stats(const kv::Sequence& s) {
    for (auto* layers : {&of(s).stats.layers, &of(s).stats.prompts})
      std::fill(layers->begin(), layers->end(), kv::SelectionStats::Layer());
  }

 private:
  struct Counts {
    std::size_t bytes = 0;
    std::int64_t sparse_from = 0;
    kv::SelectionStats stats;
  };
  Counts& of(const kv::Sequence& s) { return counts_[static_cast<std::size_t>(s.index)]; }
  const Counts& of(const kv::Sequence& s) const { return counts_[static_cast<std::size_t>(s.index)]; }
  kv::SelectionStats::Layer& stats_of(const kv::LayerStep& step, const kv::Part& part);
  void adapt(const kv::LayerStep& step, const kv::Part& part, double mass);
  double chosen_tokens(const kv::LayerStep& step, const kv::Part& part) const;

  const kv::Arena& arena_;
  const SelectMemory& memory_;
  const SelectScratch& scratch_;
  std::vector<Counts> counts_;  // by sequence
};

}  // namespace kvasir::select
