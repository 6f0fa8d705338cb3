// A correction for what a choice left out (SparQ, Ribar et al. 2024, arXiv:2312.04985, section 4: out =
// alpha out_read + (1 - alpha) mean V).
//
// The tokens that are not read are one more segment of the fold, of which nothing is read: a state whose sum is their
// estimated mass and whose output is that times the mean of their values. The mass comes from the scores of the blocks,
// the mean from the means of the blocks' values beside the pages. Both are of exactly what is not read, so a budget of
// everything leaves nothing to correct.
#pragma once

#include <cstdint>

#include "select/ask.hpp"

namespace kvasir::select {

class Unread {
 public:
  Unread(const kv::Arena& arena, const SelectMemory& memory, const SelectScratch& scratch)
      : arena_(arena), memory_(memory), scratch_(scratch) {}

  // Of generated tokens alone, where scores of representatives are scores of attention: not where it bends scores
  // afterwards.
  static bool wanted(const kv::LayerStep& step, const kv::Part& part);
  // Of the blocks that may be left out, by their scores in the question.
  void estimate_all(const kv::Part& part, int head, int rows, const Question& question) const;
  // Takes the blocks that are read off what estimate_all said.
  void estimate(const kv::LayerStep& step, const kv::Part& part, int head, int worker) const;
  // Merges the state of what is not read into room.total.
  void add(const kv::LayerStep& step, const kv::Part& part, int head, int rows, const kv::FoldScratch& room) const;

 private:
  // The mean of the values that are not read; returns how many tokens have them. rest: room for a sum.
  std::int64_t average(const kv::LayerStep& step, const kv::Part& part, int head, double* rest) const;

  const kv::Arena& arena_;
  const SelectMemory& memory_;
  const SelectScratch& scratch_;
};

}  // namespace kvasir::select
