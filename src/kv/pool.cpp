#include "kv/pool.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace kvasir::kv {

PagePool::PagePool(std::int64_t pages, int extent)
    : extent_(extent),
      references_(static_cast<std::size_t>(pages), 0),
      used_(static_cast<std::size_t>((pages + extent - 1) / extent), 0),
      free_(pages) {}

std::int32_t PagePool::take(std::int32_t after) {
  KVASIR_CHECK(free_ > 0);
  std::int64_t slot = std::int64_t{after} + 1;
  if (after < 0 || slot >= total() || !is_free(slot)) {
    const auto unused = std::find(used_.begin(), used_.end(), 0);
    slot = unused != used_.end() ? (unused - used_.begin()) * extent_
                                 : std::find(references_.begin(), references_.end(), 0) - references_.begin();
  }
  const auto taken = static_cast<std::int32_t>(slot);
  references_[static_cast<std::size_t>(slot)] = 1;
  ++used_beside(taken);
  --free_;
  return taken;
}

void PagePool::share(std::int32_t slot) {
  if (++references_[static_cast<std::size_t>(slot)] == 2) ++shared_;
}

void PagePool::drop(std::int32_t slot) {
  auto& n = references_[static_cast<std::size_t>(slot)];
  KVASIR_CHECK(n > 0);
  if (--n == 1) --shared_;
  if (n > 0) return;
  --used_beside(slot);
  ++free_;
}

void PagePool::check(const std::vector<std::int32_t>& expected) const {
  KVASIR_CHECK(expected == references_);
  std::vector<int> used(used_.size(), 0);
  std::int64_t free = 0, shared = 0;
  for (std::int64_t slot = 0; slot < total(); ++slot) {
    if (is_free(slot))
      ++free;
    else
      ++used[static_cast<std::size_t>(slot / extent_)];
    shared += references_[static_cast<std::size_t>(slot)] > 1;
  }
  KVASIR_CHECK(used == used_ && free == free_ && shared == shared_);
}

}  // namespace kvasir::kv
