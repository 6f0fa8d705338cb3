#include "kv/device_folds.hpp"

#include <algorithm>

namespace kvasir::kv {

DeviceFolds::DeviceFolds(const Arena& arena, int max_slices) : arena_(arena) {
  if (!arena.pages.device()) return;
  queries_ = tensor::Buffer(tensor::Tag::kScratch, arena.layout.device_bytes(max_slices));
  query_floats_ = arena.layout.device_query_floats();
}

void DeviceFolds::clear() {
  runs_.clear();
  begins_.clear();
  pages_.clear();
  lost_ = false;
}

bool DeviceFolds::holds(const Sequence& s, const PageList& list, std::int64_t group) const {
  for (std::int64_t place = group * kGroupPages; place < (group + 1) * kGroupPages; ++place) {
    const std::int64_t page = list.page(place);
    if (std::max(list.first_token(place), arena_.first_row(page)) >= list.end_token(place) || list.hidden(place) ||
        !device().holds(s.pages[static_cast<std::size_t>(page)]))
      return false;
  }
  return true;
}

void DeviceFolds::add(const Part& p, int head, const PageList& list) {
  // Without choices all heads have one list, and so the runs of the first.
  const auto i = static_cast<std::size_t>(p.counters + head);
  begins_.resize(i + 1, runs_.size());  // parts that were passed over have none
  if (!list.chosen && head > 0) {
    for (std::size_t r = begins_[i - 1]; r < begins_[i]; ++r) runs_.push_back(Run(runs_[r]));
  } else {
    const std::int64_t first = (list.begin + kGroupPages - 1) / kGroupPages;
    const bool deep = (list.sealed - list.begin) * kPageTokens >= device().from_tokens();
    for (std::int64_t g = first; deep && g < list.sealed / kGroupPages; ++g) {
      if (!holds(*p.sequence, list, g)) continue;
      if (runs_.size() == begins_[i] || runs_.back().end != g) runs_.push_back({g, g, false, pages_.size()});
      runs_.back().end = g + 1;
      for (std::int64_t place = g * kGroupPages; place < (g + 1) * kGroupPages; ++place) {
        const std::int64_t page = list.page(place);
        pages_.push_back({p.sequence->pages[static_cast<std::size_t>(page)],
                          std::max(list.first_token(place), arena_.first_row(page)), list.end_token(place)});
      }
    }
    if (runs_.size() > begins_[i]) {
      Run& run = runs_[begins_[i]];
      run.total = run.first == 0 && list.begin == 0 && run.end > 1 && p.borrowed_groups == 0;
    }
  }
  begins_.push_back(runs_.size());
}

bool DeviceFolds::has(const Part& p, int head, std::int64_t group) const {
  const std::span<const Run> runs = of(p, head);
  return std::any_of(runs.begin(), runs.end(), [&](const Run& r) { return group >= r.first && group < r.end; });
}

bool DeviceFolds::begin(int owner, float soft_cap) {
  if (device().begin(owner, soft_cap, folds_)) return true;
  clear();
  return false;
}

}  // namespace kvasir::kv
