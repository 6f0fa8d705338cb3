// Products of a stack of matrices with the heads of rows: every head of a row meets a matrix of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/team.hpp"
#include "cpu/matrix.hpp"
#include "cpu/rows.hpp"

namespace kvasir::cpu {

// Heads of rows of floats: head h of row r begins at data + r * row + h * head.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t row, head;
};

// The prepared heads of a step.
class HeadScratch {
 public:
  // For up to max_rows rows of `heads` heads of `width` elements; 0 heads: none.
  static HeadScratch place(std::int64_t heads, std::int64_t width, int max_rows, Placer& p);

 private:
  friend class HeadProducts;
  std::byte* inputs_ = nullptr;  // of any kind
};

class HeadProducts {
 public:
  HeadProducts(Team& team, const HeadScratch& scratch) : team_(team), scratch_(scratch) {}

  // Head h of every row of `out` = stack[h] times head h of that row of `x`. A row's bits do not depend on the others.
  // REQUIRES: no overlap.
  void multiply(int rows, std::int64_t heads, const MatrixStack& stack, HeadRows<const float> x,
                HeadRows<float> out) const;

 private:
  Team& team_;
  const HeadScratch& scratch_;
};

}  // namespace kvasir::cpu
