// Query rows of a part in one KV head, and their fold over what they attend to: sinks, borrowed pages, groups of the
// sequence's own pages.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "kv/step.hpp"

namespace kvasir::kv {

class HeadFold {
 public:
  // Tokens [token, token + tokens) of the part, and the pages of the list. many: as fold_size has it. Scratch is that
  // of the worker.
  HeadFold(const LayerStep& step, const Part& part, int head, const PageList& list, int token, int tokens, bool many,
           int worker);
  // Rows of several parts with few rows, one behind the other, for groups of sealed pages that they have in common
  // (kv/shared_groups.hpp): the first part's list, without anything that only some of them read.
  HeadFold(const LayerStep& step, std::span<const int> parts, int head, const PageList& list, int worker);
  HeadFold(const HeadFold&) = delete;
  HeadFold& operator=(const HeadFold&) = delete;

  const Rows& rows() const { return rows_; }
  const PageList& list() const { return list_; }
  const FoldScratch& scratch() const { return scratch_; }
  int dv() const { return size_.dv; }
  // Of row r and page i of those that were weighed last, (128).
  const float* weights(int r, int i) const {
    return scratch_.weights + (std::ptrdiff_t{r} * size_.batch + i) * kPageTokens;
  }

  void clear(const kernel::States& into) const { kernel::attention().clear(rows_.count, size_.dv, into); }
  void merge(const kernel::States& from, const kernel::States& into) const {
    kernel::attention().fold(rows_.count, size_.dv, from, into);
  }

  // Of states of all rows of a part, those of the fold's, which begin with `token`.
  kernel::States rows_from(int token, const kernel::States& of_part) const {
    const std::ptrdiff_t row = std::ptrdiff_t{token} * rows_.group;
    return {of_part.max + row, of_part.sum + row, of_part.out + row * kernel::out_pitch(size_.dv)};
  }
  void copy(const kernel::States& from, const kernel::States& to) const {
    std::copy_n(from.max, rows_.count, to.max);
    std::copy_n(from.sum, rows_.count, to.sum);
    std::copy_n(from.out, std::ptrdiff_t{rows_.count} * kernel::out_pitch(size_.dv), to.out);
  }
  // The rows' queries as sealed keys want them, (rows, d).
  void queries_of_codec(float* to) const {
    std::copy_n(rows_.q, std::ptrdiff_t{rows_.count} * size_.d, to);
    if (sealed_.k->k.to_basis) sealed_.k->k.to_basis(sealed_.head_k, rows_.count, to, size_.d);
  }

  // The first tokens, which are kept raw, are merged into a state. REQUIRES: there are some
  void sinks(const kernel::States& into);
  // Pages of group `group` of the list become the state `into`. after: blocks that will most likely be read next, null
  // where nothing is known.
  using Ahead = std::array<const std::byte*, kFetchAhead>;
  void group(std::int64_t group, const Ahead& after, const kernel::States& into);
  // The same of a group of the pages that the sequence borrows.
  void borrowed(std::int64_t group, const kernel::States& into);
  // The tokens of the part's run that see each other become the state `into`. REQUIRES: Part::both
  void both(const kernel::States& into);
  // The learned sink logits of the model: the state of a token with that score and a value of 0. It is merged last,
  // into scratch().total.
  void sink_logits();

  // f(pages, first place, sealed) for the sinks and then all pages of the list, as many together as the fold takes,
  // after their weights have been made: Fold::weigh. Sinks are a place before the list.
  template <class F>
  void weigh_all(F&& f);

 private:
  // Pages at places [begin, end) of the list, at most kGroupPages; returns how many of them are sealed. `here` holds
  // these.
  int load(std::int64_t begin, std::int64_t end, PinnedPages* here, FoldPage* pages) const;
  FoldPage page_at(std::int64_t place, const Blocks& blocks) const;
  FoldPage sink_page() const;

  const LayerStep& step_;
  const Part& part_;
  const Sequence& sequence_;
  const int layer_;  // that owns the pages
  const int head_;
  const bool few_;
  const PageList list_;
  const FoldSize size_;
  FoldScratch scratch_;
  Rows rows_;
  Segment raw_;  // sinks, too
  Segment sealed_;
  Fold fold_;
};

template <class F>
void HeadFold::weigh_all(F&& f) {
  if (step_.arena.layout.sinks > 0) {
    const FoldPage page = sink_page();
    fold_.weigh(raw_, {&page, 1});
    f(1, std::int64_t{-1}, false);
  }
  FoldPage pages[kGroupPages];
  PinnedPages here(step_.arena, layer_, head_);
  for (std::int64_t place = list_.begin; place < list_.end;) {
    const bool sealed = place < list_.sealed;
    const std::int64_t end = std::min(place + size_.batch, sealed ? list_.sealed : list_.end);
    load(place, end, &here, pages);
    if (!step_.arena.pages.on_disk(step_.layer()))
      for (std::int64_t i = place; i < std::min(end, list_.sealed - kFetchAhead); ++i)
        pages[i - place].k.next = step_.arena.sealed(layer_, head_, sequence_, list_.page(i + kFetchAhead)).k;
    fold_.weigh(sealed ? sealed_ : raw_, {pages, static_cast<std::size_t>(end - place)});
    f(static_cast<int>(end - place), place, sealed);
    place = end;
  }
}

}  // namespace kvasir::kv
