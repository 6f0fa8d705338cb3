// Chunk slots with reference counts: who owns which, and which are free. Knows nothing of their bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace kvasir::kv {

class PagePool {
 public:
  explicit PagePool(std::int64_t pages);

  std::int64_t total() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int32_t references(std::int32_t slot) const { return references_[static_cast<std::size_t>(slot)]; }

  std::int32_t take();  // REQUIRES: free() > 0. One reference
  void share(std::int32_t slot);
  void drop(std::int32_t slot);  // free again when it was the last reference

  // Throws std::logic_error unless every slot is either on the free list once or referenced, `expected[slot]` times.
  void check(const std::vector<std::int32_t>& expected) const;

 private:
  std::vector<std::int32_t> references_;
  std::vector<std::int32_t> free_;  // a stack, capacity for all slots: never grows
};

}  // namespace kvasir::kv
