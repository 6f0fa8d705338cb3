// What affine codecs do with codes of B bits, whatever grid chose them: compiled once per width and instruction set
// (kv/families/affine/bitsB.simd.cpp), not once per codec.
#pragma once

#include "kv/families/affine/page.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

// Rows of floats that are multiplied with pages or come out of it.
struct PageRows {
  float* first;
  std::ptrdiff_t row;   // floats from one to the next
  std::ptrdiff_t page;  // floats from those of one page to those of the next; 0: all pages have the same
};
struct PageFactors {
  const float* first;
  std::ptrdiff_t row;
  std::ptrdiff_t page;
};

template <int B>
struct Products {
  // Pages of columns.hpp: dots of g queries with keys, sums of values by g rows of weights, and a tile of either.
  static void column_dots(const PageShape& shape, const PageRef* pages, int count, const float* q, int g,
                          const PageRows& out);
  static void column_sums(const PageShape& shape, const PageRef* pages, int count, const PageFactors& weights, int g,
                          const PageRows& out);
  static void column_key_tile(const PageShape& shape, const PageRef& page, float* tile);
  static void column_value_tile(const PageShape& shape, const PageRef& page, float* tile);

  // Pages of rows.hpp, either side.
  static void row_products(const PageShape& shape, const PageRef* pages, int count, const PageFactors& x, int g,
                           const PageRows& out);
  static void row_key_tile(const PageShape& shape, const PageRef& page, float* tile);
  static void row_value_tile(const PageShape& shape, const PageRef& page, float* tile);

  // codes[depth * lanes + lane] to panels.
  static void pack(const PageShape& shape, const std::uint8_t* codes, std::byte* to);
};

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
