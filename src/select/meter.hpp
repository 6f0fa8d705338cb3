// What the choices of a step's rows hold of dense attention's mass, what follows from it (the floor, a share that
// moves), and the figures of what was read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kv/head_fold.hpp"
#include "select/ask.hpp"

namespace kvasir::kv {

class Meter {
 public:
  Meter(const Arena& arena, const SelectScratch& scratch);

  // Shares of the mass of dense attention, mean over the rows: question(worker).units, by `unit` tokens of the sealed
  // pages, and *always of what no selector leaves out, sinks and raw tokens.
  void measure(const LayerStep& step, const Part& part, int head, int worker, int unit, double* always) const;
  // The same of pages that are given.
  void measure(const LayerStep& step, const Part& part, const PageList& pages, int head, int worker, int unit,
               double* always) const;
  // What the runs of a head hold, and what the best choice of as many blocks does.
  void measure_choice(const LayerStep& step, const Part& part, int head, int worker) const;
  // Where choices hold too little the part reads everything.
  void check_floor(const LayerStep& step, Plan& plan);
  // SelectSpec::p, or what became of it in this layer by what was measured before. Prompts have it as it is.
  double share_wanted(const LayerStep& step, const Part& part) const;
  // again: blocks that were scored twice.
  void count(const LayerStep& step, const Part& part, std::int64_t again);

  // Sealed bytes and summaries that a selector had this sequence's last step read.
  std::size_t bytes_read(const Sequence& s) const { return of(s).bytes; }
  // The sequence's last step left pages out from that position on; kAllExact: it did not.
  std::int64_t left_out_from(const Sequence& s) const { return of(s).sparse_from; }
  void begin_step(const Sequence& s) { of(s).bytes = 0, of(s).sparse_from = kAllExact; }
  // Since the sequence was made.
  const SelectionStats& stats(const Sequence& s) const { return of(s).stats; }
  void set_stats(const Sequence& s, const SelectionStats& to) { of(s).stats = to; }
  void reset_stats(const Sequence& s) {
    for (auto* layers : {&of(s).stats.layers, &of(s).stats.prompts})
      std::fill(layers->begin(), layers->end(), SelectionStats::Layer());
  }

 private:
  struct Counts {
    std::size_t bytes = 0;
    std::int64_t sparse_from = 0;
    SelectionStats stats;
  };
  Counts& of(const Sequence& s) { return counts_[static_cast<std::size_t>(s.index)]; }
  const Counts& of(const Sequence& s) const { return counts_[static_cast<std::size_t>(s.index)]; }
  SelectionStats::Layer& stats_of(const LayerStep& step, const Part& part);
  void adapt(const LayerStep& step, const Part& part, double mass);
  double chosen_tokens(const LayerStep& step, const Part& part) const;

  const Arena& arena_;
  const SelectScratch& scratch_;
  std::vector<Counts> counts_;  // by sequence
};

}  // namespace kvasir::kv
