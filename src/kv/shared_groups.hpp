// Groups of sealed pages that several sequences of a step have in common, because they were forked from one another or
// restored the same beginning: their rows are folded together, so that pages are read and unpacked once for all of them
// and fill the rows of the products. A row's bits do not depend on the rows beside it, so sharing never shows.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kv/page.hpp"

namespace kvasir::kv {

// Query rows that are folded together at most. A sequence with more than half of them is folded by itself.
inline constexpr int kSharedRows = 32;

class SharedGroups {
 public:
  // One sequence's part of a step.
  struct Table {
    const std::int32_t* pages = nullptr;  // slots
    int groups = 0;                       // whole ones that are sealed, from the first page on; 0: it shares nothing
    int rows = 0;
  };

  // Makes room for so many parts with so many groups each; only this and the constructor allocate.
  void reserve(std::size_t parts, std::size_t groups);

  // One table per part. REQUIRES: room
  void find(std::span<const Table> tables);
  void clear() { any_ = false; }
  bool any() const { return any_; }

  // The parts whose rows of group `group` are folded together with those of `part`, itself included, in the order of
  // their rows: the first one's item does it. Which that is changes from group to group, so that work is spread. Empty:
  // the part folds the group alone.
  std::span<const int> with(std::size_t part, std::int64_t group) const {
    if (!any_ || group < 0 || group >= tables_[part].groups) return {};
    const int which = which_[part * groups_ + static_cast<std::size_t>(group)];
    if (which < 0) return {};
    const auto [first, count] = sets_[static_cast<std::size_t>(which)];
    return std::span(members_).subspan(first, count);
  }

 private:
  void add_sets(int group, std::span<const int> parts);

  bool any_ = false;
  std::size_t groups_ = 0;
  std::span<const Table> tables_;
  std::vector<int> which_;                                 // (parts, groups): the set that it is in, -1: none
  std::vector<std::pair<std::size_t, std::size_t>> sets_;  // among members_
  std::vector<int> members_;
  std::vector<int> order_;  // parts; those that are alike so far lie side by side
  std::vector<std::pair<std::size_t, std::size_t>> alike_, still_;  // runs of order_
};

}  // namespace kvasir::kv
