// Chunk slots with reference counts: who owns which, and which are free. Knows nothing of their bytes, but that those
// of an extent, which slots [i * extent, (i + 1) * extent) make, are read fastest one after the other.
#pragma once

#include <cstdint>
#include <vector>

namespace kvasir::kv {

class PagePool {
 public:
  PagePool(std::int64_t pages, int extent);

  std::int64_t total() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free() const { return free_; }
  std::int32_t references(std::int32_t slot) const { return references_[static_cast<std::size_t>(slot)]; }

  // The slot behind `after` (-1: none) when that is free, else the first one of an extent that nobody uses, else any.
  // One reference. REQUIRES: free() > 0
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
};

}  // namespace kvasir::kv
