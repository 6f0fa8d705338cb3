#include "serve/response_memory.hpp"

#include <iterator>
#include <utility>

namespace kvasir::serve {

std::int64_t ResponseMemory::Item::size() const {
  constexpr std::size_t kOverhead = 256;  // of the list, the table and the strings
  return static_cast<std::int64_t>(kOverhead + 2 * key.size() + stored.messages.size() + stored.response.size() +
                                   stored.input.size());
}

bool ResponseMemory::put(const std::string& tenant, const std::string& id, Stored stored) {
  Item item{key_of(tenant, id), std::move(stored)};
  if (item.size() > budget_) return false;
  const std::lock_guard lock(mutex_);
  if (const auto old = places_.find(item.key); old != places_.end()) drop(old->second);
  bytes_ += item.size();
  items_.push_front(std::move(item));
  places_[items_.front().key] = items_.begin();
  while (bytes_ > budget_) drop(std::prev(items_.end()));
  return true;
}

std::optional<ResponseMemory::Stored> ResponseMemory::find(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key_of(tenant, id));
  if (place == places_.end()) return std::nullopt;
  items_.splice(items_.begin(), items_, place->second);
  return place->second->stored;
}

bool ResponseMemory::erase(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key_of(tenant, id));
  if (place == places_.end()) return false;
  drop(place->second);
  return true;
}

std::int64_t ResponseMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseMemory::drop(std::list<Item>::iterator item) {
  bytes_ -= item->size();
  places_.erase(item->key);
  items_.erase(item);
}

}  // namespace kvasir::serve
