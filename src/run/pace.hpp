// What steps cost, measured; older ones count less.
#pragma once

#include <cstdint>

namespace kvasir::run {

// Of generated tokens: so much, and so much more for every row.
class Pace {
 public:
  // A step of `rows` tokens, none of a prompt, took so long.
  void learn(double rows, double seconds);
  bool known() const { return weight_ > 0; }
  double seconds(double rows) const;  // of a step; 0 before the first one
  double row_seconds() const;         // of one more row

 private:
  static constexpr double kMemory = 0.98;
  // Until steps of several sizes were seen a row costs this part of a step: what it is where memory is the limit.
  static constexpr double kPriorShare = 0.15, kPriorWeight = 4;
  double weight_ = 0, rows_ = 0, seconds_ = 0;  // sums
  double rows_rows_ = 0, rows_seconds_ = 0;
};

// Of a prompt's tokens: so much for each. A few of them cost less beside answers, whose weights are read anyway, and
// more alone; so what a row costs is that of the last steps, and is taken to fall slowly.
class PromptPace {
 public:
  // Even where a step cannot be short. With fewer rows the weights would be read for next to nothing.
  static constexpr std::int64_t kFewest = 16;
  // `rows` tokens of prompts took so long. Fewer than kFewest say nothing.
  void learn(double rows, double seconds);
  std::int64_t rows(double seconds) const;  // that take so long, at least kFewest; kFewest before the first step

 private:
  double row_ = 0;  // seconds
};

}  // namespace kvasir::run
