#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "store/key.hpp"

namespace kvasir::store {

// The keys of the chunks of one growing list of tokens, and how many of them each tier was given.
class Chain {
 public:
  Chain(const Fingerprint& fingerprint, std::string_view tenant) : root_(root_key(fingerprint, tenant)) {}
  // Key of page `page - 1`, the root for 0. REQUIRES: extended that far.
  const Key& before(std::int64_t page) const { return page == 0 ? root_ : keys_[static_cast<std::size_t>(page - 1)]; }
  // Keys of all whole pages of `ids`, which begins with what earlier calls were given.
  std::span<const Key> extend(std::span<const std::int32_t> ids);

  // Leading chunks that tier number `tier` has, or was given.
  std::int64_t& given(std::size_t tier) {
    if (tier >= given_.size()) given_.resize(tier + 1);
    return given_[tier];
  }
  // The tiers have a tail under `key` that is as good as those of the first `tokens` tokens.
  void has_tail(const Key& key, std::int64_t tokens) { tail_key_ = key, tail_tokens_ = tokens; }
  bool has_tail_of(const Key& key, std::int64_t tokens) const { return tokens <= tail_tokens_ && key == tail_key_; }

  // The first `pages` chunks are those of `other`.
  void share(Chain& other, std::int64_t pages);

 private:
  Key root_;
  std::vector<Key> keys_;
  std::vector<std::int64_t> given_;
  Key tail_key_;
  std::int64_t tail_tokens_ = 0;
};

}  // namespace kvasir::store
