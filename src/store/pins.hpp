// Prompts that stay: what tiers are asked not to evict. Prompts share keys.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "store/key.hpp"
#include "store/tier.hpp"

namespace kvasir::store {

// Any thread may call it.
class Pins {
 public:
  Pins(const Fingerprint& fingerprint, std::span<const std::shared_ptr<Tier>> tiers)
      : fingerprint_(fingerprint), tiers_(tiers.begin(), tiers.end()) {}

  // Protects the chunks of a prompt and its tails at `ends` (numbers of tokens) from eviction for `ttl` from now, in
  // the tiers that can. Not ok if no tier can keep all of them; then nothing is pinned.
  Status pin(std::string_view tenant, std::span<const std::int32_t> ids, std::span<const std::int64_t> ends,
             Clock::duration ttl);
  // Ends the pin of exactly this prompt; what other pinned prompts need stays pinned. False: there is none.
  bool unpin(std::string_view tenant, std::span<const std::int32_t> ids);

 private:
  struct Pin {
    std::vector<Key> keys;
    Clock::time_point until{};
  };
  // REQUIRES of both: mutex_ is held.
  void forget_ended();
  std::vector<Key> unneeded(std::span<const Key> keys) const;  // those of `keys` that no pinned prompt needs

  const Fingerprint fingerprint_;
  const std::vector<std::shared_ptr<Tier>> tiers_;
  // Held while tiers pin and unpin too: prompts share keys, and what ends one pin must not meet the beginning of
  // another.
  std::mutex mutex_;
  std::map<Key, Pin> pins_;  // by a key of all the prompt's tokens
};

}  // namespace kvasir::store
