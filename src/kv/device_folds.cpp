#include "kv/device_folds.hpp"

#include <algorithm>

namespace kvasir::kv {

DeviceFolds::DeviceFolds(const Arena& arena, int max_slices) : arena_(arena) {
  if (!arena.pages.device()) return;
  queries_ = tensor::Buffer(tensor::Tag::kScratch, arena.layout.device_bytes(max_slices));
  query_floats_ = arena.layout.device_query_floats();
  away_ = tensor::Buffer(tensor::Tag::kScratch, sizeof(float) * arena.layout.device_prompt_floats(
                                                                    std::min(kPageTokens, arena.layout.step_tokens)));
}

void DeviceFolds::reserve(std::span<const Slice> slices) {
  if (!arena_.pages.device()) return;
  std::size_t floats = 0;
  for (const Slice& s : slices)
    if (s.count > 1 || !s.both.empty()) floats += arena_.layout.device_prompt_floats(std::min(kPageTokens, s.count));
  if (sizeof(float) * floats > away_.size()) away_ = tensor::Buffer(tensor::Tag::kScratch, sizeof(float) * floats);
}

Away DeviceFolds::away(const Run& run, const Part& p, const LayerShape& shape) const {
  const auto rows = static_cast<std::size_t>(p.tokens * shape.group());
  float* at = away_.as<float>() + run.away;
  const auto take = [&](std::size_t n) {
    float* const piece = at;
    at += round_up(n);
    return piece;
  };
  Away a{};
  a.queries = take(rows * static_cast<std::size_t>(shape.head_dim));
  for (kernel::States* s : {&a.total, &a.next})
    *s = {take(rows), take(rows), take(rows * static_cast<std::size_t>(kernel::out_pitch(shape.sum_dim())))};
  return a;
}

void DeviceFolds::clear() {
  runs_.clear();
  begins_.clear();
  pages_.clear();
  away_used_ = 0;
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

// Of the last head's runs, which begin at `first`.
void DeviceFolds::keep_longest(std::size_t first) {
  const auto begin = runs_.begin() + static_cast<std::ptrdiff_t>(first);
  const Run longest = *std::max_element(begin, runs_.end(),
                                        [](const Run& a, const Run& b) { return a.end - a.first < b.end - b.first; });
  runs_.resize(first);
  runs_.push_back(longest);
  runs_.back().total = true;
}

void DeviceFolds::add(const Part& p, int head, const PageList& list, const LayerShape& shape) {
  // Without choices all heads have one list, and so the runs of the first.
  const auto i = static_cast<std::size_t>(p.counters + head);
  begins_.resize(i + 1, runs_.size());  // parts that were passed over have none
  const int rows = p.tokens * shape.group();
  if (!list.chosen && head > 0) {
    for (std::size_t r = begins_[i - 1]; r < begins_[i]; ++r) runs_.push_back(Run(runs_[r]));
  } else {
    const std::int64_t first = (list.begin + kGroupPages - 1) / kGroupPages;
    const bool deep = (list.sealed - list.begin) * kPageTokens >= device().from_tokens(rows);
    // A run of tokens that see each other sees the pages before it alone.
    const std::int64_t end = list.chosen ? list.sealed : std::min(list.sealed, p.seen_to(p.position) / kPageTokens);
    for (std::int64_t g = first; deep && g < end / kGroupPages; ++g) {
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
      if (!p.few) keep_longest(begins_[i]);
    }
  }
  if (!p.few && runs_.size() > begins_[i]) {
    runs_.back().away = away_used_;
    away_used_ += away_floats(rows, shape.head_dim, shape.sum_dim());
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
