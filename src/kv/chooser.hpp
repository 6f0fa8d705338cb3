// The lightning indexer of DeepSeek V3.2 (DeepSeek-AI 2025, "DeepSeek-V3.2-Exp", section 2): every query scores the
// index rows of all tokens up to its own,
//   score(t) = sum over heads h of weight_h * relu(q_h . k_t)
// and sees the `top` tokens with the largest scores; of equals the earlier. A query at a position below `top` sees all.
// With blocks (IndexShape::block) whole ones are scored, by their last row, and what is chosen are top / block of them;
// the tokens behind the last whole block are seen besides (QSA of Qwen 3.8 Flash-Next). Then all is seen as long as
// there are no more whole blocks than that.
// Scores and choice are of one row by itself, so they do not depend on steps, chunks and threads (law 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/team.hpp"
#include "kv/chosen.hpp"
#include "kv/step.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

class Chooser {
 public:
  Chooser(Team& team, const Arena& arena);

  // Makes room for a step, in which nothing has been chosen yet. Throws Error(kMemory).
  void reserve(std::span<const Slice> slices);
  std::size_t scratch_bytes() const { return words_.size() + scores_.size(); }

  // For all rows of a stage's parts, whose index rows are in the cache already. Queries are those of the step as they
  // are (n, heads, dim), weights (n, heads); null: 1.
  void run(const LayerStep& step, const float* weights);
  // What the layer `index` chose in this step. REQUIRES: it is the last one that did.
  Chosen chosen(int index) const;

 private:
  // Rows of one part that are scored together, `count` of them from token `token` on.
  struct Run {
    const Part* part;
    int token;
    int count;
    int slot;  // of its first row among the scores
    std::int64_t pages;
  };
  void choose(const LayerStep& step, const float* weights);
  void score(const LayerStep& step, const float* weights, const Run& run, std::int64_t page, int worker) const;
  void pick(const Part& part, int token, int slot, int top, int block) const;
  float* scores(int slot) const { return scores_.as<float>() + slot * stride_; }

  Team& team_;
  const Arena& arena_;
  tensor::Buffer words_;
  tensor::Buffer scores_;      // (kIndexRows, stride_), and as many that are put in order
  std::ptrdiff_t stride_ = 0;  // of scores
  std::ptrdiff_t pitch_ = 0;   // of words, in this step
  int index_ = -1;             // the layer that chose last
  std::vector<Run> runs_;
};

}  // namespace kvasir::kv
