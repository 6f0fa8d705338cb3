// How one layer's attention of a step is cut into work: stages, parts, items.
//
// A stage is the next query block of every slice, because entering a block seals a page. The part of a slice in a stage
// is cut into items per KV head: few rows (generated tokens) by groups of pages, whose states are merged by whoever
// ends the last one; many rows (prompts) by rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/arena.hpp"

namespace kvasir::kv {

// The pages that the rows of a part see in one layer and KV head, in order; sinks come before them. Pages have places
// in the list. Groups of kGroupPages are by place, which is the page's own index unless a selector chose.
struct PageList {
  std::int64_t begin;  // places [begin, end)
  std::int64_t end;
  std::int64_t sealed;                   // places [begin, sealed) are sealed, the others raw
  const std::int32_t* chosen = nullptr;  // of the sealed places; null: the place is the page
  std::int64_t first_raw = 0;            // page at place `sealed`, when chosen

  std::int64_t page(std::int64_t place) const {
    if (!chosen) return place;
    return place < sealed ? chosen[place] : first_raw + place - sealed;
  }
};

struct Part {
  const Sequence* sequence;
  std::int64_t position;  // of its first token
  std::int64_t block;     // position / 128
  int row;                // in the batch
  int tokens;
  bool seals;   // its first token enters a block, and a page leaves the raw ones
  bool few;     // cut by groups of pages, else by rows
  bool chosen;  // a selector was asked
  int items_per_head;
  std::int64_t first_item;  // of this part among all of the stage
  // few:
  std::int64_t first_group;
  std::int64_t states;     // floats before its states
  int counters;            // before its counters, one per KV head
  std::int64_t selection;  // pages before its choices
  // many:
  int tokens_per_item;
};

class Plan {
 public:
  Plan(const Layout& layout, int threads, int max_slices);

  void start(int layer, std::span<const Slice> slices);
  // Goes to the next stage; false when nothing is left. Items are known after share().
  bool next();
  // Lays out items. choices[part.selection + head * pages + ...]: how many pages were chosen is asked of `count`.
  template <class Count>
  void share(Count&& count);

  PageList list(const Part& part, const std::int32_t* chosen, int count) const;

  const LayerLayout& layer() const { return *layer_; }
  std::span<const Part> parts() const { return parts_; }
  // Parts whose pages are sealed and whose tokens are appended before any item runs; few rows that seal nothing append
  // for themselves.
  std::span<const int> prepared() const { return prepared_; }
  std::int64_t items() const { return items_; }
  std::int64_t first_piece() const { return first_; }  // items of a thread's first piece
  std::int64_t choices() const { return choices_; }    // room of selections that the stage needs

 private:
  void place_few(Part& p, int groups);
  void place_many(Part& p);
  void share_out();

  const Layout& layout_;
  const LayerLayout* layer_ = nullptr;
  std::span<const Slice> slices_;
  int threads_;
  std::vector<int> done_;  // tokens of each slice before this stage
  std::vector<Part> parts_;
  std::vector<int> prepared_;
  std::int64_t items_ = 0;
  std::int64_t first_ = 1;
  std::int64_t states_ = 0;
  std::int64_t choices_ = 0;
};

template <class Count>
void Plan::share(Count&& count) {
  items_ = 0;
  states_ = 0;
  for (Part& p : parts_) {
    p.first_item = items_;
    if (p.few) {
      std::int64_t groups = 0;
      for (int h = 0; h < layer_->shape.kv_heads; ++h) {
        const PageList pages = list(p, nullptr, p.chosen ? count(p, h) : -1);
        groups = std::max(groups, (pages.end - 1) / kGroupPages - pages.begin / kGroupPages + 1);
        p.first_group = pages.begin / kGroupPages;
      }
      place_few(p, static_cast<int>(groups));
    } else {
      place_many(p);
    }
    items_ += static_cast<std::int64_t>(layer_->shape.kv_heads) * p.items_per_head;
  }
  share_out();
}

}  // namespace kvasir::kv
