#include "store/chain.hpp"

#include <algorithm>

#include "kv/page.hpp"

namespace kvasir::store {

using kv::kPageTokens;

std::span<const Key> Chain::extend(std::span<const std::int32_t> ids) {
  const auto pages = static_cast<std::int64_t>(ids.size()) / kPageTokens;
  for (auto i = static_cast<std::int64_t>(keys_.size()); i < pages; ++i)
    keys_.push_back(chunk_key(before(i), ids.subspan(static_cast<std::size_t>(i * kPageTokens), kPageTokens)));
  return {keys_.data(), static_cast<std::size_t>(pages)};
}

void Chain::share(Chain& other, std::int64_t pages) {
  for (std::size_t t = 0; t < other.given_.size(); ++t) given(t) = std::max(given(t), std::min(other.given_[t], pages));
}

}  // namespace kvasir::store
