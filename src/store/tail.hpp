// The keys of tails.
//
//   pages     0 ... s - 1  sealed: chunks        s ... j  raw: the tail
//   record    parent: key of chunk s - 1 (or the root)    ids: all tokens from page s on
//   key       hash of the key of chunk j - 1 and of the first tokens of page j, in steps of kTailGrain
//
// j is the page of the last token. The key follows from parent and ids alone, because the keys of the whole pages
// s ... j - 1 are chained from them. Every token is compared on a hit.
#pragma once

#include <cstdint>
#include <span>

#include "kv/page.hpp"
#include "store/key.hpp"

namespace kvasir::store {

inline constexpr std::int64_t kTailGrain = 16;  // tokens

inline std::int64_t page_of_last(std::int64_t n) { return (n - 1) / kv::kPageTokens; }

// How many tokens of the last page are in the key of a tail of n tokens. Whole pages before it may be left out of n.
inline std::int64_t skip_of(std::int64_t n) {
  return (n - page_of_last(n) * kv::kPageTokens - 1) / kTailGrain * kTailGrain;
}

// `before`: key of the chunk before the last page. `page_ids` begins with the last page. `skip`: skip_of(n).
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
