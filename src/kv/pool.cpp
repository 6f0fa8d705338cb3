#include "kv/pool.hpp"

#include "base/check.hpp"

namespace kvasir::kv {

PagePool::PagePool(std::int64_t pages) : references_(static_cast<std::size_t>(pages), 0) {
  free_.reserve(references_.size());
  for (auto i = pages; i-- > 0;) free_.push_back(static_cast<std::int32_t>(i));
}

std::int32_t PagePool::take() {
  KVASIR_CHECK(!free_.empty());
  const std::int32_t slot = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(slot)] = 1;
  return slot;
}

void PagePool::share(std::int32_t slot) { ++references_[static_cast<std::size_t>(slot)]; }

void PagePool::drop(std::int32_t slot) {
  auto& n = references_[static_cast<std::size_t>(slot)];
  KVASIR_CHECK(n > 0);
  if (--n == 0) free_.push_back(slot);
}

void PagePool::check(const std::vector<std::int32_t>& expected) const {
  KVASIR_CHECK(expected.size() == references_.size());
  std::vector<bool> is_free(references_.size(), false);
  for (const auto slot : free_) {
    KVASIR_CHECK(!is_free[static_cast<std::size_t>(slot)]);
    is_free[static_cast<std::size_t>(slot)] = true;
  }
  std::int64_t used = 0;
  for (std::size_t i = 0; i < references_.size(); ++i) {
    KVASIR_CHECK(references_[i] == expected[i]);
    KVASIR_CHECK(is_free[i] == (references_[i] == 0));
    used += references_[i] > 0;
  }
  KVASIR_CHECK(used + free() == total());
}

}  // namespace kvasir::kv
