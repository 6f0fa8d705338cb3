#include "run/pace.hpp"

#include <algorithm>
#include <bit>

namespace kvasir::run {

void Pace::learn(double rows, double seconds) {
  // A step that something else held up says nothing of the next one.
  if (weight_ > 4) seconds = std::min(seconds, 2 * this->seconds(rows));
  for (double* sum : {&weight_, &rows_, &seconds_, &rows_rows_, &rows_seconds_}) *sum *= kMemory;
  weight_ += 1;
  rows_ += rows;
  seconds_ += seconds;
  rows_rows_ += rows * rows;
  rows_seconds_ += rows * seconds;
}

double Pace::row_seconds() const {
  if (!known()) return 0;
  const double mean_rows = rows_ / weight_, mean = seconds_ / weight_;
  const double spread = rows_rows_ - mean_rows * rows_, product = rows_seconds_ - mean_rows * seconds_;
  const double prior = kPriorShare * mean / (1 + kPriorShare * (mean_rows - 1));
  const double slope = (product + kPriorWeight * prior) / (std::max(0.0, spread) + kPriorWeight);
  return std::clamp(slope, 0.02 * mean / mean_rows, mean / mean_rows);
}

double Pace::seconds(double rows) const {
  if (!known()) return 0;
  return std::max(1e-9, seconds_ / weight_ + (rows - rows_ / weight_) * row_seconds());
}

std::size_t PromptPace::class_of(std::int64_t depth) {
  return std::min<std::size_t>(std::bit_width(static_cast<std::uint64_t>(depth) >> 9), kClasses - 1);
}

void PromptPace::learn(std::span<const Slice> slices, double seconds) {
  double rows = 0, expected = 0;
  for (const Slice& s : slices) {
    rows += static_cast<double>(s.rows);
    expected += static_cast<double>(s.rows) * row_seconds(s.depth);
  }
  if (rows < kFewest) return;  // the last token of a prompt that is known reads all weights for itself
  if (expected <= 0) {         // the first ones
    for (const Slice& s : slices) row_[class_of(s.depth)] = std::max(1e-9, seconds / rows);
    return;
  }
  // A step that something else held up says little of the next one.
  const double off = std::clamp(seconds / expected, 0.5, 4.0), part = off > 1 ? 0.5 : 0.25;
  std::array<double, kClasses> next = row_;
  for (const Slice& s : slices) next[class_of(s.depth)] = row_seconds(s.depth) * (1 + part * (off - 1));
  row_ = next;
}

double PromptPace::row_seconds(std::int64_t depth) const {
  const std::size_t c = class_of(depth);
  for (std::size_t i = c + 1; i-- > 0;)
    if (row_[i] > 0) return row_[i];
  const auto deeper =
      std::find_if(row_.begin() + static_cast<std::ptrdiff_t>(c), row_.end(), [](double r) { return r > 0; });
  return deeper == row_.end() ? 0 : *deeper;
}

std::int64_t PromptPace::rows(std::int64_t depth, double seconds) const {
  const double row = row_seconds(depth);
  return row > 0 ? static_cast<std::int64_t>(std::clamp(seconds / row, 0.0, 1e9)) : kFewest;
}

}  // namespace kvasir::run
