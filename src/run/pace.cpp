#include "run/pace.hpp"

#include <algorithm>

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

void PromptPace::learn(double rows, double seconds) {
  if (rows < kFewest) return;  // the last token of a prompt that is known reads all weights for itself
  const double row = std::max(1e-9, seconds / rows);
  row_ = row_ > 0 ? 0.5 * (row_ + std::clamp(row, 0.5 * row_, 4 * row_)) : row;
}

std::int64_t PromptPace::rows(double seconds) const {
  if (row_ <= 0) return kFewest;
  return std::max(kFewest, static_cast<std::int64_t>(std::min(seconds / row_, 1e9)));
}

}  // namespace kvasir::run
