// What steps cost, measured; older ones count less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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

// Of prompts' tokens in short steps: so much for each, by how many tokens stand before it, which attention reads. What
// is measured counts at once where it is more, and slowly where it is less: a step that is too long holds up answers.
class PromptPace {
 public:
  // A step has as many, even where it cannot be short. With fewer the weights would be read for next to nothing.
  static constexpr std::int64_t kFewest = 16;
  struct Slice {
    std::int64_t rows = 0, depth = 0;  // behind so many tokens
  };
  // A step took so long for these. Fewer than kFewest rows say nothing.
  void learn(std::span<const Slice> slices, double seconds);
  double row_seconds(std::int64_t depth) const;  // 0: nothing is known yet
  // That take so long; kFewest as long as nothing is known.
  std::int64_t rows(std::int64_t depth, double seconds) const;

 private:
  // By depth: 0 to 511 tokens, then twice as many each.
  static std::size_t class_of(std::int64_t depth);
  static constexpr std::size_t kClasses = 24;
  std::array<double, kClasses> row_{};  // seconds; 0: unknown
};

}  // namespace kvasir::run
