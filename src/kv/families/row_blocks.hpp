// Query or weight rows in blocks whose number of rows kernels know when they are compiled. For sources compiled per
// instruction set.
#pragma once

#include "simd/shapes.hpp"
#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using simd::KVASIR_TARGET::kFewShapes, simd::KVASIR_TARGET::kOneShape;

// Rows that a kernel handles at once: their sums stay in registers.
inline constexpr int kRowBlock = kOneShape ? 1 : KVASIR_VECTOR_REGISTERS >= 32 && !kFewShapes ? 8 : 4;

// Of the block that begins at `row`, of g rows in all: as many as there is a shape for.
KVASIR_INLINE int rows_from(int row, int g) { return g - row >= kRowBlock ? kRowBlock : kFewShapes ? 1 : g - row; }

// Calls f.template operator()<G>() with G = n, which is one of rows_from. No switch: with one the compiler made
// turbo4's sums over four rows 20 % slower.
template <class F>
KVASIR_INLINE void with_rows(int n, F&& f) {
  if (n == 1) f.template operator()<1>();
  if constexpr (!kFewShapes) {
    if (n == 2) f.template operator()<2>();
    if (n == 3) f.template operator()<3>();
  }
  if constexpr (kRowBlock >= 4)
    if (n == 4) f.template operator()<4>();
  if constexpr (kRowBlock == 8) {
    if (n == 5) f.template operator()<5>();
    if (n == 6) f.template operator()<6>();
    if (n == 7) f.template operator()<7>();
    if (n == 8) f.template operator()<8>();
  }
}

// Calls f.template operator()<G>(first row) for all blocks of g rows.
template <class F>
KVASIR_INLINE void for_row_blocks(int g, F&& f) {
  for (int r = 0, n = 0; r < g; r += n) {
    n = rows_from(r, g);
    with_rows(
        n, [&]<int G>() __attribute__((always_inline)) { f.template operator()<G>(r); });
  }
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
