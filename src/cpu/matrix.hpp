// Packed matrices: views of their panels, which lie in the model's weight arena or where a layer source has put them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernel/matmul.hpp"

namespace kvasir::cpu {

struct Addend;

struct Matrix {
  const kernel::PanelFormat* format = nullptr;  // nullptr: there is none
  const std::byte* panels = nullptr;
  std::int64_t rows = 0, k = 0;
  std::int64_t panel_bytes = 0;
  const std::int32_t* order = nullptr;  // (k): column j is multiplied by element order[j]; null: by element j
  const Addend* addend = nullptr;       // of products with rows: null: none. REQUIRES: no order

  std::int64_t panel_count() const { return (rows + kernel::kPanelRows - 1) / kernel::kPanelRows; }
  std::int64_t bytes() const { return panel_count() * panel_bytes; }
  std::int64_t weights() const { return rows * k; }
  // Whether it is multiplied in floats of some kind, not in integers.
  bool in_floats() const { return format->activation != kernel::ActivationKind::kInt8; }
  void unpack_row(std::int64_t row, float* out) const {
    format->unpack_row(panels + row / kernel::kPanelRows * panel_bytes, static_cast<int>(row % kernel::kPanelRows), k,
                       out);
  }
};

// What adapters add to a product (LoRA, arXiv 2106.09685): W x becomes W x + B (S A x). Several adapters of a matrix
// are one addend, whose ranks follow each other; S scales each adapter's ranks as the row has it (Rows::scales).
struct Addend {
  // Ranks [begin, end) are those of one of the model's adapters.
  struct Part {
    int adapter;
    std::int64_t begin, end;
  };

  Matrix a;  // (rank, k), floats
  Matrix b;  // (rows, rank), floats
  std::vector<Part> parts;

  std::int64_t rank() const { return a.rows; }
};

// Matrices of one shape and format, `stride` bytes from one to the next, or `offset` bytes behind places[i] each.
struct MatrixStack {
  Matrix first;
  std::int64_t stride = 0;
  const std::byte* const* places = nullptr;  // null: by `stride`
  std::int64_t offset = 0;

  Matrix operator[](std::int64_t i) const {
    Matrix m = first;
    m.panels = places ? places[i] + offset : first.panels + i * stride;
    return m;
  }
};

}  // namespace kvasir::cpu
