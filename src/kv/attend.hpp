// Attention of one step in one layer: appends, seals, asks the selector and attends, query block by query block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/team.hpp"
#include "kv/fold.hpp"
#include "kv/options.hpp"
#include "kv/plan.hpp"

namespace kvasir::kv {

class Attention {
 public:
  Attention(Team& team, const Arena& arena, int max_slices);

  // Makes room for a step; allocates only when more sequences decode together than ever before. Throws Error(kMemory).
  void reserve(std::span<const Slice> slices);
  std::size_t scratch_bytes() const {
    return workers_.size() + states_.size() + answers_.size() + questions_.size() + arena_.selections.size();
  }

  // Sealed bytes and summaries that a selector had this sequence's last step read.
  std::size_t selected_bytes(const Sequence& s) const { return selected_[static_cast<std::size_t>(s.index)]; }
  void forget_selected(const Sequence& s) { selected_[static_cast<std::size_t>(s.index)] = 0; }

  struct Tensors {
    int layer;
    const float* q;
    const float* k;
    const float* v;
    float* out;
    Scoring scoring;
  };
  void run(std::span<const Slice> slices, const Tensors& x);

 private:
  struct Segments;  // the list of one part and head

  void prepare(const Tensors& x, const Part& part, int head, Side side, int worker) const;
  void select(const Tensors& x, const Part& part, int head, int worker) const;
  void count_selected();
  void attend_few(const Tensors& x, const Part& part, int head, int group, int worker) const;
  void attend_many(const Tensors& x, const Part& part, int head, int piece, int worker) const;
  void finish_few(const Tensors& x, const Part& part, int head, int worker) const;
  void write_out(const Tensors& x, const Part& part, int head, int token, int tokens,
                 const kernel::States& total) const;

  void add_sinks(const Tensors& x, int head, int rows, const FoldScratch& scratch) const;
  const float* slopes(const Tensors& x, int head) const {
    return x.scoring.slopes ? x.scoring.slopes + static_cast<std::ptrdiff_t>(head) * plan_.layer().group() : nullptr;
  }
  void make_angles(std::span<const Slice> slices, const Tensors& x) const;
  Rows load_rows(const Tensors& x, const Part& part, int head, int token, int tokens, float* q) const;
  PageList list(const Part& part, int head) const;
  Segments segments(const Part& part, int head) const;
  void fold_sinks(const Segments& segments, const Rows& rows, Fold& fold, const kernel::States& into) const;
  void fold_group(const Segments& segments, const Part& part, const Rows& rows, std::int64_t group, Fold& fold,
                  const kernel::States& into) const;
  void fold_borrowed(const Segments& segments, const Tensors& x, const Rows& rows, std::int64_t group, Fold& fold,
                     const kernel::States& into) const;
  const std::byte* after_group(const Part& part, int head, std::int64_t group, int ahead) const;
  TokenRows tokens_of(const Tensors& x, Side side, std::int64_t row, int head) const;
  kernel::States state(const Part& part, int head, std::int64_t index) const;
  float* scratch(int worker) const { return workers_.as<float>() + static_cast<std::size_t>(worker) * worker_floats_; }
  int* chosen_counts(const Part& part) const {
    return answers_.as<int>() + choice_room_ + static_cast<std::ptrdiff_t>(part.counters);
  }

  Team& team_;
  const Arena& arena_;
  Plan plan_;
  std::size_t worker_floats_;
  tensor::Buffer workers_;
  tensor::Buffer states_;
  tensor::Buffer answers_;    // of selectors, see Layout
  tensor::Buffer questions_;  // to selectors, per thread
  std::int64_t choice_room_ = 0;
  std::vector<std::size_t> selected_;  // by sequence
  std::unique_ptr<std::atomic<int>[]> pending_;
};

}  // namespace kvasir::kv
