// Which blocks of the context the rows of a part read: these parts, that budget, which pages.
//
// Asking gives every block a vote, head by head: from the summaries, or, where keys choose or a prompt is preselected,
// from the attention mass itself. Answering picks by the votes and writes the list of runs. With one choice for all
// heads the votes of the heads are added in between. Votes and picks depend on the sequence alone, never on threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/team.hpp"
#include "kv/selection.hpp"
#include "select/meter.hpp"
#include "select/unread.hpp"
#include "select/voter.hpp"

namespace kvasir::select {

class BlockSelection final : public kv::Selection {
 public:
  BlockSelection(Team& team, const SelectSpec& spec, const kv::Arena& arena, int max_slices);

  std::size_t scratch_bytes() const override { return scratch_.bytes() + memory_.state_bytes(); }
  double seconds() const override { return seconds_; }

  bool wants_queries() const override;
  void on_seal(int layer, int head, kv::Side side, const kv::Sequence& s, std::int64_t page, const kv::Blocks& raw,
               const float* q, float* scratch) const override;
  void on_restore(const kv::Sequence& s, std::int64_t page) override;

  void reset(const kv::Sequence& s) override { memory_.forget(s), meter_.reset_stats(s); }
  void forget(const kv::Sequence& s) override { memory_.forget(s); }
  void cut(const kv::Sequence& s, std::int64_t n) override { memory_.cut(s, n); }
  void copy(const kv::Sequence& from, const kv::Sequence& to) override {
    memory_.copy(from, to), meter_.set_stats(to, meter_.stats(from));
  }

  void begin_step(const kv::Sequence& s) override { meter_.begin_step(s); }
  void remember(std::span<const kv::Slice> slices, const kv::Tensors& x) const override;
  void run(const kv::LayerStep& step, kv::Plan& plan) override;
  std::span<const kv::PageRun> runs(const kv::Part& part, int head) const override {
    return scratch_.runs(part.counters + head);
  }
  void add_unread(const kv::LayerStep& step, const kv::Part& part, int head, int rows,
                  const kv::FoldScratch& room) const override {
    if (Unread::wanted(step, part)) unread_.add(step, part, head, rows, room);
  }

  std::size_t bytes_read(const kv::Sequence& s) const override { return meter_.bytes_read(s); }
  std::int64_t left_out_from(const kv::Sequence& s) const override { return meter_.left_out_from(s); }
  const kv::SelectionStats& stats(const kv::Sequence& s) const override { return meter_.stats(s); }

 private:
  enum class Ask { kReuse, kPreselect, kChoose };
  void choose(const kv::LayerStep& step, kv::Plan& plan);
  const kv::LayerLayout& slot_layer(const kv::LayerStep& step, const kv::Part& part) const;
  Ask what_to_ask(const kv::LayerStep& step, const kv::Part& part, int head) const;
  void ask(const kv::LayerStep& step, const kv::Part& part, int head, int worker) const;
  bool measure_window(const kv::LayerStep& step, const kv::Part& part, int head, int worker, int unit) const;
  void answer(const kv::LayerStep& step, const kv::Part& part, int first_head, int heads, int worker) const;
  void fetch(const kv::LayerStep& step);

  Team& team_;
  const kv::Arena& arena_;
  SelectMemory memory_;
  SelectScratch scratch_;
  std::vector<float> frame_;  // of outlines
  Meter meter_;
  Unread unread_;
  Voters voters_;
  double seconds_ = 0;
  std::vector<kv::HotPages::Unit> wanted_;
};

}  // namespace kvasir::select
