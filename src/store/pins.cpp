#include "store/pins.hpp"

#include <unordered_set>

#include "kv/page.hpp"
#include "store/chain.hpp"
#include "store/tail.hpp"

namespace kvasir::store {

using kv::kPageTokens;

Status Pins::pin(std::string_view tenant, std::span<const std::int32_t> ids, std::span<const std::int64_t> ends,
                 Clock::duration ttl) {
  Chain chain(fingerprint_, tenant);
  const std::span<const Key> chunks = chain.extend(ids);
  Pin pin{{chunks.begin(), chunks.end()}, within(ttl)};
  for (const std::int64_t n : ends) {
    if (n < 1 || n > static_cast<std::int64_t>(ids.size())) continue;
    const std::int64_t begin = page_of_last(n) * kPageTokens;
    const auto last = ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(n - begin));
    pin.keys.push_back(key_of_tail(chain.before(begin / kPageTokens), last, skip_of(n)));
  }
  const Key name = tail_key(chain.before(0), ids);
  const std::lock_guard lock(mutex_);
  forget_ended();
  Status status{"nothing is kept between requests"};
  bool pinned = false;
  for (const auto& tier : tiers_) {
    const Status s = tier->pin(pin.keys, ttl);
    pinned = pinned || s.ok();
    if (!s.ok()) status = s;
  }
  if (pinned) {
    Pin& known = pins_[name];
    if (known.until < pin.until) known = std::move(pin);  // as tiers do
    return {};
  }
  // Tiers may have pinned some of the keys before they found no room for the next.
  const std::vector<Key> free = unneeded(pin.keys);
  for (const auto& tier : tiers_) tier->unpin(free);
  return status;
}

void Pins::forget_ended() {
  std::erase_if(pins_, [now = Clock::now()](const auto& p) { return p.second.until <= now; });
}

std::vector<Key> Pins::unneeded(std::span<const Key> keys) const {
  std::unordered_set<Key> left(keys.begin(), keys.end());
  for (const auto& [name, pin] : pins_)
    for (const Key& key : pin.keys) left.erase(key);
  return {left.begin(), left.end()};
}

bool Pins::unpin(std::string_view tenant, std::span<const std::int32_t> ids) {
  const Key name = tail_key(root_key(fingerprint_, tenant), ids);
  const std::lock_guard lock(mutex_);
  forget_ended();
  const auto it = pins_.find(name);
  if (it == pins_.end()) return false;
  const std::vector<Key> keys = std::move(it->second.keys);
  pins_.erase(it);
  const std::vector<Key> free = unneeded(keys);
  for (const auto& tier : tiers_) tier->unpin(free);  // tiers that pin nothing say so
  return true;
}

}  // namespace kvasir::store
