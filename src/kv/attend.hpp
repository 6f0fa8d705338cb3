// Attention of one step in one layer: appends, seals, asks the selection and attends, query block by query block.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/team.hpp"
#include "kv/chooser.hpp"
#include "kv/device_folds.hpp"
#include "kv/head_fold.hpp"
#include "kv/sealer.hpp"
#include "kv/selection.hpp"
#include "kv/shared_groups.hpp"

namespace kvasir::kv {

class Attention {
 public:
  Attention(Team& team, const Arena& arena, int max_slices);

  // Makes room for a step; allocates only when more sequences decode together than ever before. Throws Error(kMemory).
  void reserve(std::span<const Slice> slices);
  std::size_t scratch_bytes() const {
    return workers_.size() + states_.size() + selection_->scratch_bytes() + device_.scratch_bytes() +
           chooser_.scratch_bytes();
  }
  Selection& selection() { return *selection_; }

  void run(std::span<const Slice> slices, const Tensors& x);
  // Of the rows of an index: appends them and chooses. Tensors has queries, keys and the layer alone.
  void choose(std::span<const Slice> slices, const Tensors& x, const float* weights);
  Chosen chosen(int index_layer) const { return chooser_.chosen(index_layer); }

 private:
  void make_angles(std::span<const Slice> slices, const Tensors& x) const;
  void prepare(const LayerStep& step);
  void attend(const LayerStep& step);
  void attend_few(const LayerStep& step, const Part& part, int head, int group, int worker) const;
  // Of parts that have a group of pages in common, by the first of them.
  void attend_together(const LayerStep& step, std::span<const int> parts, int head, int piece, int worker) const;
  void find_shared(const LayerStep& step);
  void attend_many(const LayerStep& step, const Part& part, int head, int piece, int worker) const;
  // The state of rows of a prompt before a group of the list, and from there to the answer. Into scratch().total.
  void fold_before(const Part& part, HeadFold& fold, std::int64_t group) const;
  void fold_from(const LayerStep& step, const Part& part, HeadFold& fold, int head, std::int64_t group) const;
  void finish_few(const LayerStep& step, const Part& part, HeadFold& fold, int head) const;
  // Of groups that a device has: begun before the host's items run, and merged after them.
  void begin_away(const LayerStep& step);
  void make_start(HeadFold& fold, const Part& part, int head) const;
  void make_start_of_many(HeadFold& fold, const Part& part, int head) const;
  void end_away(const LayerStep& step);
  void end_many(const LayerStep& step, HeadFold& fold, const Part& part, int head, bool back) const;
  // f(part, head, piece, worker) for all items of the stage.
  template <class F>
  void each_item(std::int64_t first_piece, F&& f);
  static int first_token(const Part& part, int piece) { return piece * part.tokens_per_item; }
  static int tokens_of(const Part& part, int piece) {
    return std::min(part.tokens_per_item, part.tokens - first_token(part, piece));
  }
  static void write_out(const LayerStep& step, const Part& part, int head, int token, int tokens,
                        const kernel::States& total);
  HeadFold::Ahead after_group(const LayerStep& step, const Part& part, int head, std::int64_t group) const;
  kernel::States state(const Part& part, int head, std::int64_t index) const;
  kernel::States group_state(const Part& part, int head, std::int64_t group) const {
    return state(part, head, 1 + part.borrowed_groups + group - part.first_group);
  }
  // All pages, or those that were chosen.
  PageList list(const Part& part, int head) const;
  std::atomic<int>& pending(const Part& part, int head) const {
    return pending_[static_cast<std::size_t>(part.counters + head)];
  }

  Team& team_;
  const Arena& arena_;
  std::unique_ptr<Selection> selection_;
  const Sealer sealer_;
  Plan plan_;
  DeviceFolds device_;
  Chooser chooser_;
  SharedGroups shared_;
  std::vector<SharedGroups::Table> tables_;
  std::size_t worker_floats_;
  tensor::Buffer workers_;
  tensor::Buffer states_;
  std::unique_ptr<std::atomic<int>[]> pending_;  // groups of a head that are not there yet
};

}  // namespace kvasir::kv
