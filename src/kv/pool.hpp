// Slots for pages, with reference counts. The pool knows which slots are free, but nothing of their bytes.
//
// Slots [i * extent, (i + 1) * extent) form extent i. Consecutive slots of an extent lie side by side in memory, so a
// sequence is read fastest when its pages take them in order.
#pragma once

#include <cstdint>
#include <vector>

namespace kvasir::kv {

class PagePool {
 public:
  PagePool(std::int64_t pages, int extent);

  std::int64_t total() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free() const { return free_; }
  std::int64_t shared() const { return shared_; }  // with more than one reference
  std::int32_t references(std::int32_t slot) const { return references_[static_cast<std::size_t>(slot)]; }

  // Takes a free slot, with one reference: the slot after `after` (-1: none) if it is free, else the first slot of an
  // unused extent, else any. REQUIRES: free() > 0
  std::int32_t take(std::int32_t after);
  void share(std::int32_t slot);
  void drop(std::int32_t slot);  // free again when it was the last reference

  // Throws std::logic_error unless every slot is referenced expected[slot] times and the counts of free and used ones
  // are right.
  void check(const std::vector<std::int32_t>& expected) const;

 private:
  bool is_free(std::int64_t slot) const { return references_[static_cast<std::size_t>(slot)] == 0; }
  int& used_beside(std::int32_t slot) { return used_[static_cast<std::size_t>(slot / extent_)]; }

  int extent_;
  std::vector<std::int32_t> references_;
  std::vector<int> used_;  // slots, by extent
  std::int64_t free_;
  std::int64_t shared_ = 0;
};

}  // namespace kvasir::kv
