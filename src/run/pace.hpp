// What a step of generated tokens costs, measured: so much, and so much more for every row. Older steps count less.
#pragma once

namespace kvasir::run {

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

}  // namespace kvasir::run
