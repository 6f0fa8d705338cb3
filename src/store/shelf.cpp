#include "store/shelf.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/heap.hpp"
#include "store/policy.hpp"

namespace kvasir::store {

Status Shelf::get(std::span<const Key> keys, Deadline /*deadline*/, std::span<Answer> answers) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto it = nodes_.find(keys[i]);
    if (it == nodes_.end()) {
      answers[i] = {};
      continue;
    }
    use(it->first, it->second);
    answers[i] = {Outcome::kFound, it->second.record};
  }
  return {};
}

Status Shelf::contains(std::span<const Key> keys, Deadline /*deadline*/, std::span<Outcome> outcomes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < keys.size(); ++i)
    outcomes[i] = nodes_.contains(keys[i]) ? Outcome::kFound : Outcome::kAbsent;
  return {};
}

Status Shelf::put(std::span<const Offer> offers, Deadline /*deadline*/, std::span<PutOutcome> outcomes) {
  bool trim = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < offers.size(); ++i) outcomes[i] = put_one(offers[i]);
    trim = freed_ >= trim_after_;
    if (trim) freed_ = 0;
  }
  if (trim) return_free_memory();
  return {};
}

PutOutcome Shelf::put_one(const Offer& offer) {
  const std::uint64_t charge = offer.record.bytes.size() + kOverhead;
  if (charge > budget_) return PutOutcome::kRefused;
  bool was_pinned = false;
  Clock::time_point pinned_until{};
  if (const auto it = nodes_.find(offer.key); it != nodes_.end()) {
    const auto mine = envelope(it->second.record.bytes), other = envelope(offer.record.bytes);
    if (!other.empty() && std::equal(mine.begin(), mine.end(), other.begin(), other.end())) {
      use(it->first, it->second);
      return PutOutcome::kKept;
    }
    was_pinned = it->second.pinned;
    pinned_until = it->second.pinned_until;
    remove(it);
  }
  // First the parent has a child: making room for the child must not drop it.
  add_child(offer.head.parent);
  if (!make_room(charge)) {
    drop_child(offer.head.parent);
    return PutOutcome::kRefused;
  }
  Node node;
  node.record = offer.record;
  node.parent = offer.head.parent;
  node.cost = offer.head.cost;
  node.charge = charge;
  node.priority = priority(age_, 1, node.cost, charge);
  node.order = next_order_++;
  bytes_ += charge;
  const auto it = nodes_.emplace(offer.key, std::move(node)).first;
  if (was_pinned && pinned_bytes_ + charge <= pin_budget_) {
    it->second.pinned = true;
    it->second.pinned_until = pinned_until;
    pinned_bytes_ += charge;
    pins_.emplace(pinned_until, offer.key);
  }
  settle(it->first, it->second);
  return PutOutcome::kStored;
}

bool Shelf::make_room(std::uint64_t charge) {
  release_expired();
  while (bytes_ + charge > budget_) {
    if (evictable_.empty()) return false;
    const auto [lowest, order, key] = *evictable_.begin();
    age_ = std::max(age_, lowest);
    remove(nodes_.find(key));
    ++evictions_;
  }
  return true;
}

void Shelf::use(const Key& key, Node& node) {
  leave(key, node);
  ++node.uses;
  node.priority = priority(age_, node.uses, node.cost, node.charge);
  node.order = next_order_++;
  settle(key, node);
}

void Shelf::remove(Nodes::iterator it) {
  const Key key = it->first;
  Node& node = it->second;
  leave(key, node);
  if (node.pinned) release(key, node);
  bytes_ -= node.charge;
  freed_ += node.charge;
  const Key parent = node.parent;
  nodes_.erase(it);
  drop_child(parent);
}

void Shelf::settle(const Key& key, Node& node) {
  const bool should = !node.pinned && !children_.contains(key);
  if (should == node.evictable) return;
  if (!should) {
    leave(key, node);
    return;
  }
  evictable_.emplace(node.priority, node.order, key);
  node.evictable = true;
}

void Shelf::leave(const Key& key, Node& node) {
  if (!node.evictable) return;
  evictable_.erase({node.priority, node.order, key});
  node.evictable = false;
}

void Shelf::add_child(const Key& parent) {
  if (++children_[parent] > 1) return;
  if (const auto it = nodes_.find(parent); it != nodes_.end()) settle(it->first, it->second);
}

void Shelf::drop_child(const Key& parent) {
  const auto count = children_.find(parent);
  if (--count->second > 0) return;
  children_.erase(count);
  if (const auto it = nodes_.find(parent); it != nodes_.end()) settle(it->first, it->second);
}

Status Shelf::erase(std::span<const Key> keys, Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  for (const Key& key : keys)
    if (const auto it = nodes_.find(key); it != nodes_.end()) remove(it);
  return {};
}

Status Shelf::touch(std::span<const Key> keys, Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  for (const Key& key : keys)
    if (const auto it = nodes_.find(key); it != nodes_.end()) use(it->first, it->second);
  return {};
}

Status Shelf::clear(Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  nodes_.clear();
  children_.clear();
  evictable_.clear();
  pins_.clear();
  bytes_ = pinned_bytes_ = 0;
  return {};
}

Status Shelf::list(FunctionRef<bool(const Listed&)> each, Deadline /*deadline*/) {
  std::vector<Listed> all;  // `each` may call this shelf
  {
    const std::lock_guard lock(mutex_);
    all.reserve(nodes_.size());
    for (const auto& [key, node] : nodes_)
      all.push_back({.key = key,
                     .bytes = node.record.bytes.size(),
                     .uses = static_cast<std::uint32_t>(std::min<std::uint64_t>(node.uses, UINT32_MAX))});
  }
  for (const Listed& l : all)
    if (!each(l)) break;
  return {};
}

Status Shelf::pin(std::span<const Key> keys, Clock::time_point until) {
  const std::lock_guard lock(mutex_);
  release_expired();
  for (const Key& key : keys) {
    const auto it = nodes_.find(key);
    if (it == nodes_.end()) continue;
    Node& node = it->second;
    if (node.pinned && node.pinned_until >= until) continue;  // the longer pin wins
    if (!node.pinned && pinned_bytes_ + node.charge > pin_budget_)
      return {"pinned records would take more than " + std::to_string(pin_budget_) + " bytes"};
    if (node.pinned) release(key, node);
    node.pinned = true;
    node.pinned_until = until;
    pinned_bytes_ += node.charge;
    pins_.emplace(until, key);
    settle(key, node);
  }
  return {};
}

Status Shelf::unpin(std::span<const Key> keys) {
  const std::lock_guard lock(mutex_);
  for (const Key& key : keys) {
    const auto it = nodes_.find(key);
    if (it == nodes_.end() || !it->second.pinned) continue;
    release(key, it->second);
    settle(key, it->second);
  }
  return {};
}

void Shelf::release(const Key& key, Node& node) {
  const auto [begin, end] = pins_.equal_range(node.pinned_until);
  pins_.erase(std::find_if(begin, end, [&](const auto& p) { return p.second == key; }));
  node.pinned = false;
  pinned_bytes_ -= node.charge;
}

void Shelf::release_expired() {
  const auto now = Clock::now();
  while (!pins_.empty() && pins_.begin()->first <= now) {
    const Key key = pins_.begin()->second;
    Node& node = nodes_.find(key)->second;
    release(key, node);
    settle(key, node);
  }
}

Usage Shelf::usage() {
  const std::lock_guard lock(mutex_);
  release_expired();
  return {.bytes = bytes_,
          .budget = budget_,
          .records = nodes_.size(),
          .evictions = evictions_,
          .pinned_bytes = pinned_bytes_};
}

}  // namespace kvasir::store
