// Records in memory with the order in which they are given up: what the tier `ram` is made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>

#include "store/backend.hpp"

namespace kvasir::store {

class Shelf : public Backend {
 public:
  // `pin_budget`: how much of the budget pinned records may take.
  Shelf(std::uint64_t budget, std::uint64_t pin_budget)
      : budget_(budget), pin_budget_(pin_budget), trim_after_(std::max<std::uint64_t>(budget / 64, 1 << 18)) {}

  Traits traits() const override { return {.immediate = true, .readers = 1}; }
  Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) override;
  Status contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) override;
  Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) override;
  Status erase(std::span<const Key> keys, Deadline deadline) override;
  Status touch(std::span<const Key> keys, Deadline deadline) override;
  Status clear(Deadline deadline) override;
  Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline) override;
  Status pin(std::span<const Key> keys, Clock::time_point until) override;
  Status unpin(std::span<const Key> keys) override;
  Usage usage() override;
  Status sync(Deadline /*deadline*/) override { return {}; }

  // Besides its bytes a record costs its nodes in the maps; an estimate of what the allocator takes for them.
  static constexpr std::uint64_t kOverhead = 320;

 private:
  struct Node {
    SharedBytes record;
    Key parent;
    float cost = 0;
    std::uint64_t charge = 0;
    std::uint64_t uses = 1;
    double priority = 0;
    std::uint64_t order = 0;  // of two with one priority the older goes first
    Clock::time_point pinned_until{};
    bool pinned = false;
    bool evictable = false;  // stands in evictable_
  };
  using Nodes = std::unordered_map<Key, Node>;
  using Rank = std::tuple<double, std::uint64_t, Key>;

  PutOutcome put_one(const Offer& offer);
  bool make_room(std::uint64_t charge);
  void use(const Key& key, Node& node);
  void remove(Nodes::iterator it);
  void settle(const Key& key, Node& node);  // into evictable_ or out of it, as its children and pins say
  void leave(const Key& key, Node& node);
  void add_child(const Key& parent);
  void drop_child(const Key& parent);
  void release_expired();
  void release(const Key& key, Node& node);

  const std::uint64_t budget_;
  const std::uint64_t pin_budget_;
  const std::uint64_t trim_after_;  // bytes of dropped records after which free memory is given back to the system
  std::mutex mutex_;
  Nodes nodes_;
  std::unordered_map<Key, std::uint32_t> children_;  // records that name a key as parent, whether it is here or not
  std::set<Rank> evictable_;
  std::multimap<Clock::time_point, Key> pins_;
  double age_ = 0;
  std::uint64_t next_order_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t pinned_bytes_ = 0;
  std::uint64_t evictions_ = 0;
  std::uint64_t freed_ = 0;  // since memory was given back last
};

}  // namespace kvasir::store
