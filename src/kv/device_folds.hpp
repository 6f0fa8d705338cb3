// What a device folds of one layer and stage: the whole groups of sealed pages that it holds, head by head, while the
// host folds the others. Groups that follow each other are a run.
//
// Few rows: states lie where the host would have put them (Attention::state). A run that begins at a head's first group
// becomes a total from the sinks on, in the place of its first group's state; what the sinks gave, its start, stands in
// the place of the second one's. If the device is lost, the host folds these groups into the same places.
//
// Many rows (prompts): states of all groups would be many times the pages' bytes. So one run of a head is the device's,
// the longest, and always becomes a total: of the sinks and whatever the host folds before the run. Meanwhile the host
// folds the group behind it (Away), and then goes on from the total. If the device is lost, it begins anew.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/fold.hpp"
#include "kv/plan.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

// Of many rows of a head, all of them.
struct Away {
  float* queries;        // (rows, head_dim): scaled, in the basis of the keys
  kernel::States total;  // what the device's run begins with, then what it becomes
  kernel::States next;   // of the group behind the run
};
// Floats of one.
constexpr std::size_t away_floats(int rows, int d, int dv) {
  const auto n = static_cast<std::size_t>(rows);
  return round_up(n * static_cast<std::size_t>(d)) +
         2 * (2 * round_up(n) + n * static_cast<std::size_t>(kernel::out_pitch(dv)));
}

class DeviceFolds {
 public:
  DeviceFolds(const Arena& arena, int max_slices);
  std::size_t scratch_bytes() const { return queries_.size() + away_.size(); }
  // Makes room for a step; allocates only when more tokens of prompts come together than ever before. Throws
  // Error(kMemory).
  void reserve(std::span<const Slice> slices);

  struct Run {
    std::int64_t first;  // groups [first, end) of the list
    std::int64_t end;
    bool total;  // else states of the groups
    std::size_t page;
    std::size_t away = 0;  // many rows: where its floats begin
  };

  // Begins a stage without any.
  void clear();
  // Takes what the device holds of a head with that list. REQUIRES: parts and heads in ascending order
  void add(const Part& part, int head, const PageList& list, const LayerShape& shape);
  bool any() const { return !runs_.empty(); }
  bool any(const Part& part, int head) const { return !of(part, head).empty(); }
  bool has(const Part& part, int head, std::int64_t group) const;
  // Groups that are in the head's total: its first ones, or none.
  std::int64_t in_total(const Part& part, int head) const {
    const std::span<const Run> runs = of(part, head);
    return !lost_ && !runs.empty() && runs.front().total ? runs.front().end : 0;
  }
  std::span<const Run> of(const Part& part, int head) const {
    const auto i = static_cast<std::size_t>(part.counters + head);
    return i + 1 < begins_.size() ? std::span(runs_).subspan(begins_[i], begins_[i + 1] - begins_[i])
                                  : std::span<const Run>();
  }
  // The run of a head with many rows; null: it has none.
  const Run* run(const Part& part, int head) const {
    const std::span<const Run> runs = of(part, head);
    return part.few || runs.empty() ? nullptr : &runs.front();
  }
  Away away(const Run& run, const Part& part, const LayerShape& shape) const;
  // Where a head's queries go before `start` (few rows), (tokens * group, head_dim): scaled, in the basis of its keys.
  float* queries(const Part& part, int head) const {
    return queries_.as<float>() + static_cast<std::size_t>(part.counters + head) * query_floats_;
  }

  // state(part, head, group): where the host puts the state of a group. False: the device refused, and nothing is with
  // it. owner: the layer that owns the pages.
  template <class State>
  bool start(int owner, const LayerShape& shape, float soft_cap, std::span<const Part> parts, State&& state);
  // False: the device is lost, and every group is the host's.
  bool wait() {
    lost_ = !device().wait();
    return !lost_;
  }

 private:
  PageDevice& device() const { return *arena_.pages.device(); }
  void keep_longest(std::size_t first);
  bool holds(const Sequence& s, const PageList& list, std::int64_t group) const;
  bool begin(int owner, float soft_cap);

  const Arena& arena_;
  std::size_t query_floats_ = 0;
  tensor::Buffer queries_;
  tensor::Buffer away_;
  std::size_t away_used_ = 0;  // floats of it in this stage
  std::vector<Run> runs_;
  std::vector<std::size_t> begins_;  // into runs_, by Part::counters + head, and the end
  std::vector<DevicePage> pages_;
  std::vector<kernel::States> states_;
  std::vector<DeviceFold> folds_;
  bool lost_ = false;
};

template <class State>
bool DeviceFolds::start(int owner, const LayerShape& shape, float soft_cap, std::span<const Part> parts,
                        State&& state) {
  folds_.clear();
  states_.clear();
  std::size_t groups = 0;
  for (const Run& run : runs_) groups += static_cast<std::size_t>(run.end - run.first);
  states_.reserve(groups);  // folds point into it
  for (const Part& p : parts)
    for (int head = 0; head < shape.kv_heads; ++head)
      for (const Run& run : of(p, head)) {
        const auto n = static_cast<std::size_t>(run.end - run.first);
        DeviceFold f;
        f.head = head;
        f.rows = p.tokens * shape.group();
        f.q = queries(p, head);
        f.pages = std::span(pages_).subspan(run.page, n * kGroupPages);
        const std::size_t at = states_.size();
        if (!p.few) {
          const Away there = away(run, p, shape);
          f.q = there.queries;
          f.total = there.total;
          states_.push_back(there.total);
          f.start = &states_.back();
        } else if (run.total) {
          f.total = state(p, head, run.first);
          states_.push_back(state(p, head, run.first + 1));
          f.start = &states_.back();
        } else {
          for (auto g = run.first; g < run.end; ++g) states_.push_back(state(p, head, g));
          f.groups = std::span(states_).subspan(at, n);
        }
        folds_.push_back(f);
      }
  return begin(owner, soft_cap);
}

}  // namespace kvasir::kv
