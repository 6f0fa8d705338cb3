// How the attention of one layer and step is cut into work.
//
//   step = stages, one after the other          a stage: the next query block of every slice, to the end of a page or to
//                                               where a page is sealed; with CacheOptions::window these are the same
//   stage = parts, one per slice
//   part = items, which threads take            per KV head
//     few rows (generated tokens):   an item is a group of pages; the thread that ends the last group merges the states
//     many rows (prompts):           an item is a run of rows
//
// Stages are separate because the first row of a block may seal a page, and the block's rows read that page sealed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/arena.hpp"
#include "kv/page_run.hpp"

namespace kvasir::kv {

// The pages that the rows of a part see in one layer and KV head, in order. Sinks come before them and are not listed.
// A page has a place in the list. Without a selector the place is the page's own index; with one it is a run of a
// page's tokens. A group is kGroupPages places.
struct PageList {
  std::int64_t begin;  // places [begin, end)
  std::int64_t end;
  std::int64_t sealed;              // places [begin, sealed) are sealed, the others raw
  const PageRun* chosen = nullptr;  // of the sealed places; null: the place is the page
  std::int64_t first_raw = 0;       // page at place `sealed`, when chosen

  std::int64_t page(std::int64_t place) const {
    if (!chosen) return place;
    return place < sealed ? chosen[place].page : first_raw + place - sealed;
  }
  // Tokens of the page that stand at the place.
  int first_token(std::int64_t place) const { return chosen && place < sealed ? chosen[place].begin : 0; }
  int end_token(std::int64_t place) const { return chosen && place < sealed ? chosen[place].end : kPageTokens; }
  // Tokens between these that are left out, as FoldPage has them; null: none.
  const std::uint64_t* hidden(std::int64_t place) const {
    return chosen && place < sealed && chosen[place].hides ? chosen[place].hidden : nullptr;
  }
};

struct Part {
  const Sequence* sequence;
  std::int64_t position;  // of its first token
  std::int64_t block;     // position / 128
  int row;                // in the batch
  int tokens;
  bool seals;       // its first token makes a page leave the raw ones, so that page is sealed
  bool few;         // cut by groups of pages, else by rows
  bool chosen;      // a selector is asked
  bool measured;    // and the mass that its choice holds is measured: of a prompt for the query that chooses
  bool reads_keys;  // whoever chooses or measures reads the key of the query's own token
  // For a prompt, of which some positions from `first` on read one choice; `first` does not depend on steps. The first
  // of them that is computed chooses.
  bool prompt;
  std::int64_t first;
  BothWays both;  // that the tokens lie in; {}: none
  BlockCut cut;
  int items_per_head;
  std::int64_t first_item;  // of this part among all of the stage
  int borrowed_groups;      // of kGroupPages borrowed pages; few: items that come before those of own pages
  // few:
  std::int64_t first_group;
  std::int64_t states;  // floats before its states
  int counters;         // before its counters and answers, one per KV head
  // many:
  int tokens_per_item;

  // The first token behind those of the sequence's own that a row sees, whose last token is `last`, by itself.
  std::int64_t seen_to(std::int64_t last) const { return both.end > 0 ? both.begin : last + 1; }
  // Tokens whose queries ask a selector: of a prompt's the first.
  int asking() const { return prompt ? 1 : tokens; }
  std::int64_t asking_at() const { return position + asking() - 1; }
};

class Plan {
 public:
  Plan(const Layout& layout, int threads, int max_slices);

  void start(int layer, std::span<const Slice> slices);
  // Goes to the next stage; false when nothing is left. Items are known after share().
  bool next();
  // Lays out the items of the stage. count(part, head) is how many pages the selector chose; it is called for parts
  // with `chosen` only.
  template <class Count>
  void share(Count&& count);

  PageList list(const Part& part, const PageRun* chosen, int count) const;
  // In place of what a selector chose. Before share().
  void read_all(const Part& part) { parts_[static_cast<std::size_t>(&part - parts_.data())].chosen = false; }

  const LayerLayout& layer() const { return *layer_; }
  int few_rows() const { return layout_.few_rows(); }
  std::span<const Part> parts() const { return parts_; }
  // Parts that seal and append before any item runs. A part with few rows that seals nothing is not among them: its
  // items append their own tokens.
  std::span<const int> prepared() const { return prepared_; }
  std::int64_t items() const { return items_; }
  std::int64_t first_piece() const { return first_; }  // items of a thread's first piece
  bool asks() const { return asks_; }                  // a selector is asked about some part

 private:
  int drafted_together() const;
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
  bool asks_ = false;
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
      place_few(p, static_cast<int>(groups) + p.borrowed_groups);
    } else {
      place_many(p);
    }
    items_ += static_cast<std::int64_t>(layer_->shape.kv_heads) * p.items_per_head;
  }
  share_out();
}

}  // namespace kvasir::kv
