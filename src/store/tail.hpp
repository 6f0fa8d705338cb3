// What tails are called. A tail of n tokens is what is raw of them, from the first raw page on; its record names the
// last sealed page (or the root) as its parent and holds the ids of all tokens behind that, so that its key follows
// from the record alone and every token is compared on a hit.
#pragma once

#include <cstdint>
#include <span>

#include "kv/page.hpp"
#include "store/key.hpp"

namespace kvasir::store {

inline constexpr std::int64_t kTailGrain = 16;  // tokens

inline std::int64_t page_of_last(std::int64_t n) { return (n - 1) / kv::kPageTokens; }

// Of the tail of n tokens: how many of its last page's are in its key. What lies in whole pages does not change it.
inline std::int64_t skip_of(std::int64_t n) {
  return (n - page_of_last(n) * kv::kPageTokens - 1) / kTailGrain * kTailGrain;
}

// `before`: key of the chunk in front of the page; `page_ids` begin with the page.
inline Key key_of_tail(const Key& before, std::span<const std::int32_t> page_ids, std::int64_t skip) {
  return tail_key(before, page_ids.first(static_cast<std::size_t>(skip)));
}

// The key that goes with a record's parent and token ids.
inline Key key_of_tail(const Key& parent, std::span<const std::int32_t> ids) {
  const auto n = static_cast<std::int64_t>(ids.size());
  const auto page = static_cast<std::size_t>(kv::kPageTokens);
  Key before = parent;
  for (std::int64_t i = 0; i < page_of_last(n); ++i, ids = ids.subspan(page))
    before = chunk_key(before, ids.first(page));
  return key_of_tail(before, ids, skip_of(n));
}

}  // namespace kvasir::store
