// Which blocks of the context the rows of a part read: these parts, that budget, which pages. It is a folder of kv and
// no layer above it, because attention asks it and the cache keeps its memory (kv/layout.hpp).
//
// Asking gives every block a vote, head by head: from the summaries, or, where keys choose or a prompt is preselected,
// from the attention mass itself. Answering picks by the votes and writes the list of runs. With one choice for all
// heads the votes of the heads are added in between. Votes and picks depend on the sequence alone, never on threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/team.hpp"
#include "select/meter.hpp"
#include "select/unread.hpp"

namespace kvasir::kv {

class Selection {
 public:
  Selection(Team& team, const Arena& arena, int max_slices)
      : team_(team),
        arena_(arena),
        scratch_(arena.layout, team.size(), max_slices),
        meter_(arena, scratch_),
        unread_(arena, scratch_) {}
  std::size_t scratch_bytes() const { return scratch_.bytes() + arena_.selections.size(); }

  // Before the first stage of a layer: keeps what the newest tokens of prompts ask, for SelectSpec::window.
  void remember(std::span<const Slice> slices, const Tensors& x) const;
  // Chooses for all parts of a stage that ask, and counts what all of them read.
  void run(const LayerStep& step, Plan& plan);
  // Of a part and head: all pages, or those that were chosen.
  PageList list(const Plan& plan, const Part& part, int head) const {
    if (!part.chosen) return plan.list(part, nullptr, -1);
    return plan.list(part, scratch_.answers().runs_at(part.counters + head), count(part, head));
  }
  int count(const Part& part, int head) const { return scratch_.answers().counts[part.counters + head]; }

  Meter& meter() { return meter_; }
  const Unread& unread() const { return unread_; }
  double seconds() const { return seconds_; }  // spent on choosing

 private:
  enum class Ask { kReuse, kPreselect, kChoose };
  void choose(const LayerStep& step, Plan& plan);
  const LayerLayout& slot_layer(const LayerStep& step, const Part& part) const;
  Ask what_to_ask(const LayerStep& step, const Part& part, int head) const;
  void ask(const LayerStep& step, const Part& part, int head, int worker) const;
  void score(const LayerStep& step, const Part& part, int head, const Question& question, int rows) const;
  void score_outlines(const LayerStep& step, const Part& part, int head, const Question& question, int rows) const;
  void score_again(const LayerStep& step, const Part& part, int head, const Question& question, int rows,
                   float* votes) const;
  // Blocks that are scored by what is stored after outlines were, at most; 0: all, and outlines are not asked.
  static std::int64_t scored_again(const Part& part);
  bool measure_window(const LayerStep& step, const Part& part, int head, int worker, int unit) const;
  void answer(const LayerStep& step, const Part& part, int first_head, int heads, int worker) const;
  void fetch(const LayerStep& step);

  Team& team_;
  const Arena& arena_;
  SelectScratch scratch_;
  Meter meter_;
  Unread unread_;
  double seconds_ = 0;
  std::vector<HotPages::Unit> wanted_;
};

}  // namespace kvasir::kv
