// Attention of one step in one layer: appends, seals, asks the selector and attends, query block by query block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/team.hpp"
#include "kv/device_folds.hpp"
#include "kv/fold.hpp"
#include "kv/options.hpp"
#include "kv/plan.hpp"

namespace kvasir::kv {

// The scratch of one item: few rows and a group of pages, or many rows and a page at a time.
struct Item {
  FoldSize size;
  FoldScratch scratch;
  Item(const LayerLayout& l, int few_rows, bool many, float* at)
      : size(fold_size(l, many ? kItemRows : few_rows, many)) {
    scratch.place(at, size);
  }
};

class Attention {
 public:
  Attention(Team& team, const Arena& arena, int max_slices);

  // Makes room for a step; allocates only when more sequences decode together than ever before. Throws Error(kMemory).
  void reserve(std::span<const Slice> slices);
  std::size_t scratch_bytes() const {
    return workers_.size() + states_.size() + answers_.size() + questions_.size() + arena_.selections.size() +
           device_.scratch_bytes();
  }

  // Sealed bytes and summaries that a selector had this sequence's last step read.
  std::size_t selected_bytes(const Sequence& s) const { return selected_[static_cast<std::size_t>(s.index)]; }
  // The sequence's last step left pages out,
  // From that position on; kAllExact: it did not.
  std::int64_t left_out_from(const Sequence& s) const { return sparse_[static_cast<std::size_t>(s.index)]; }
  void forget_selected(const Sequence& s) {
    selected_[static_cast<std::size_t>(s.index)] = 0;
    sparse_[static_cast<std::size_t>(s.index)] = kAllExact;
  }

  double choosing_seconds() const { return choosing_seconds_; }
  // Since the sequence was made.
  const SelectionFigures& figures(const Sequence& s) const { return figures_[static_cast<std::size_t>(s.index)]; }
  void set_figures(const Sequence& s, const SelectionFigures& to) { figures_[static_cast<std::size_t>(s.index)] = to; }
  void reset_figures(const Sequence& s) {
    SelectionFigures& f = figures_[static_cast<std::size_t>(s.index)];
    for (auto* layers : {&f.layers, &f.prompts}) std::fill(layers->begin(), layers->end(), SelectionFigures::Layer());
  }

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
  // What a part's rows attend to in one head.
  struct Segments {
    int layer;  // that owns the pages
    int head;
    const Sequence& sequence;
    PageList list;
    Segment raw;  // sinks, too
    Segment sealed;
  };

  void prepare(const Tensors& x, const Part& part, int head, Side side, int worker) const;
  // attend_select.cpp
  enum class Ask { kReuse, kPreselect, kChoose };
  void select(const Tensors& x);
  void choose(const Tensors& x);
  Ask what_to_ask(const Part& part, int head) const;
  void ask(const Tensors& x, const Part& part, int head, int worker) const;
  void score(const Part& part, int head, const Question& question, int rows) const;
  void score_outlines(const Part& part, int head, const Question& question, int rows) const;
  void score_again(const Part& part, int head, const Question& question, int rows, float* votes) const;
  // Blocks that are scored by what is stored after outlines were, at most; 0: all, and outlines are not asked.
  std::int64_t scored_again(const Part& part) const;
  void answer(const Part& part, int first_head, int heads, int worker) const;
  // Tokens whose queries ask: of a prompt's the first.
  static int asking(const Part& part) { return part.prompt ? 1 : part.tokens; }
  static std::int64_t asking_at(const Part& part) { return part.position + asking(part) - 1; }
  bool keeps_choice(const Part& part) const {
    const SelectSpec& spec = part.sequence->select;
    return part.prompt ? spec.keeps_choices() : spec.keeps_state();
  }
  int load_question(const Tensors& x, const Part& part, int head, int worker) const;
  // attend_meter.cpp
  void measure(const Tensors& x, const Part& part, int head, int worker, int unit, double* always) const;
  void measure_choice(const Tensors& x, const Part& part, int head, int worker) const;
  void count_selected(const Part& part);
  SelectionFigures::Layer& figures_of(const Part& part);
  double share_wanted(const Part& part) const;
  void adapt(const Part& part, double mass);
  double chosen_tokens(const Part& part) const;
  void check_floor();
  // attend_tail.cpp
  bool corrects(const Tensors& x, const Part& part) const;
  void estimate_all(const Part& part, int head, int rows, const Question& question) const;
  void estimate_unread(const Tensors& x, const Part& part, int head, int worker) const;
  std::int64_t average_unread(const Part& part, int head, double* rest) const;
  void add_unread(const Part& part, int head, int rows, const FoldScratch& scratch) const;
  const LayerLayout& slot_layer(const Part& part) const;
  Question question(int worker) const;
  void attend_few(const Tensors& x, const Part& part, int head, int group, int worker) const;
  void attend_many(const Tensors& x, const Part& part, int head, int piece, int worker) const;
  void finish_few(const Tensors& x, const Part& part, int head, int worker) const;
  // Of groups that a device has: begun before the host's items run, and merged after them.
  void begin_away(const Tensors& x);
  void end_away(const Tensors& x);
  void make_start(const Tensors& x, const Part& part, int head, int worker) const;
  void write_out(const Tensors& x, const Part& part, int head, int token, int tokens,
                 const kernel::States& total) const;

  void add_sinks(const Tensors& x, int head, int rows, const FoldScratch& scratch) const;
  const float* slopes(const Tensors& x, int head) const {
    return x.scoring.slopes ? x.scoring.slopes + static_cast<std::ptrdiff_t>(head) * plan_.layer().group() : nullptr;
  }
  void make_angles(std::span<const Slice> slices, const Tensors& x) const;
  Rows load_rows(const Tensors& x, const Part& part, int head, int token, int tokens, float* q) const;
  PageList list(const Part& part, int head) const;
  // whole: all pages, whatever a selector chose
  Segments segments(const Part& part, int head, bool whole = false) const;
  FoldPage sink_page(const Segments& segments, const Rows& rows) const;
  // Pages at places [begin, end) of a list, at most kGroupPages; returns how many of them are sealed. `here` holds
  // these.
  int load_pages(const Segments& segments, const Rows& rows, std::int64_t begin, std::int64_t end, PinnedPages* here,
                 FoldPage* pages) const;
  FoldPage page_at(const Segments& segments, const Rows& rows, std::int64_t place, const Blocks& blocks) const;
  void fetch_chosen();
  void fold_sinks(const Segments& segments, const Rows& rows, Fold& fold, const kernel::States& into) const;
  void fold_group(const Segments& segments, const Part& part, const Rows& rows, std::int64_t group, Fold& fold,
                  const kernel::States& into) const;
  void fold_borrowed(const Segments& segments, const Tensors& x, const Rows& rows, std::int64_t group, Fold& fold,
                     const kernel::States& into) const;
  const std::byte* after_group(const Part& part, int head, std::int64_t group, int ahead) const;
  TokenRows tokens_of(const Tensors& x, Side side, std::int64_t row, int head) const;
  kernel::States state(const Part& part, int head, std::int64_t index) const;
  kernel::States group_state(const Part& part, int head, std::int64_t group) const {
    return state(part, head, 1 + part.borrowed_groups + group - part.first_group);
  }
  float* scratch(int worker) const { return workers_.as<float>() + static_cast<std::size_t>(worker) * worker_floats_; }
  int chosen_count(const Part& part, int head) const { return to_.counts[part.counters + head]; }

  Team& team_;
  const Arena& arena_;
  Plan plan_;
  DeviceFolds device_;
  std::size_t worker_floats_;
  tensor::Buffer workers_;
  tensor::Buffer states_;
  tensor::Buffer answers_;    // of selectors
  tensor::Buffer questions_;  // to selectors, per thread
  Answers to_{};
  double choosing_seconds_ = 0;
  std::vector<std::size_t> selected_;      // by sequence
  std::vector<std::int64_t> sparse_;       // by sequence
  std::vector<SelectionFigures> figures_;  // by sequence
  std::unique_ptr<std::atomic<int>[]> pending_;
  std::vector<HotPages::Unit> wanted_;
};

}  // namespace kvasir::kv
