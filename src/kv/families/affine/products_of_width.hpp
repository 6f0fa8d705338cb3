// The definitions of products.hpp; included by the source of each width.
#pragma once

#include "kv/families/affine/columns.hpp"
#include "kv/families/affine/products.hpp"
#include "kv/families/affine/rows.hpp"
#include "kv/families/packed/pack.hpp"
#include "kv/families/row_blocks.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

KVASIR_INLINE const std::byte* next_of(const PageRef& page) { return page.next ? page.next : page.block; }

// Writers of tiles, for decode().
KVASIR_INLINE auto key_tile(float* tile, int d) {
  return [=](int lane, int k, F32 x) __attribute__((always_inline)) {
    store(tile + (static_cast<std::ptrdiff_t>(lane / kPanel) * d + k) * kPanel + lane % kPanel, x);
  };
}
KVASIR_INLINE auto value_tile(float* tile) {
  return [=](int lane, int k, F32 x) __attribute__((always_inline)) {
    store(tile + (static_cast<std::ptrdiff_t>(lane / kPanel) * kPageTokens + k) * kPanel + lane % kPanel, x);
  };
}
KVASIR_INLINE int whole_panels(int tokens) { return (tokens + kPanel - 1) / kPanel * kPanel; }

}  // namespace

template <int B>
void Products<B>::column_dots(const PageShape& shape, const PageRef* pages, int count, const float* q, int g,
                              const PageRows& out) {
  const PageShape s = shape;
  for_row_blocks(g, [&]<int G>(int r) {
    QuantizedRows<G> rows;
    ColumnProducts<B>::quantize(s, q + static_cast<std::ptrdiff_t>(r) * s.depth, s.depth, rows);
    for (int i = 0; i < count; ++i)
      ColumnProducts<B>::template multiply<G>(s, pages[i].block, next_of(pages[i]), rows, pages[i].begin, pages[i].end,
                                              out.first + r * out.row + i * out.page, out.row);
  });
}

// Weights of one page differ by orders of magnitude, so what their 8 bits leave of them goes through again.
template <int B>
void Products<B>::column_sums(const PageShape& shape, const PageRef* pages, int count, const PageFactors& weights,
                              int g, const PageRows& out) {
  const PageShape s = shape;
  for_row_blocks(g, [&]<int G>(int r) {
    QuantizedRows<G> rows;
    alignas(64) float rest[G][kPageTokens];
    alignas(64) float part[G][kMaxDepth];
    for (int i = 0; i < count; ++i) {
      const float* const x = weights.first + r * weights.row + i * weights.page;
      float* const to = out.first + r * out.row + i * out.page;
      ColumnProducts<B>::quantize(s, x, weights.row, rows);
      ColumnProducts<B>::template multiply<G>(s, pages[i].block, pages[i].block, rows, 0, s.lanes, to, out.row);
      ColumnProducts<B>::leave_rest(s, x, weights.row, rows, rest[0]);
      ColumnProducts<B>::quantize(s, rest[0], kPageTokens, rows);
      ColumnProducts<B>::forget_totals(s, rows);
      ColumnProducts<B>::template multiply<G>(s, pages[i].block, next_of(pages[i]), rows, 0, s.lanes, part[0],
                                              kMaxDepth);
      for (int row = 0; row < G; ++row)
        for (int lane = 0; lane < s.lanes; lane += kLanes)
          store(to + row * out.row + lane, add(load(to + row * out.row + lane), load(part[row] + lane)));
    }
  });
}

template <int B>
void Products<B>::row_products(const PageShape& shape, const PageRef* pages, int count, const PageFactors& x, int g,
                               const PageRows& out) {
  const PageShape s = shape;
  for_row_blocks(g, [&]<int G>(int r) {
    for (int i = 0; i < count; ++i)
      RowProducts<B>::template multiply<G>(s, pages[i].block, next_of(pages[i]), x.first + r * x.row + i * x.page,
                                           x.row, out.first + r * out.row + i * out.page, out.row);
  });
}

template <int B>
void Products<B>::column_key_tile(const PageShape& shape, const PageRef& page, float* tile) {
  ColumnProducts<B>::decode(shape, page.block, whole_panels(page.end), key_tile(tile, shape.depth));
}
template <int B>
void Products<B>::column_value_tile(const PageShape& shape, const PageRef& page, float* tile) {
  ColumnProducts<B>::decode(shape, page.block, shape.lanes, value_tile(tile));
}
template <int B>
void Products<B>::row_key_tile(const PageShape& shape, const PageRef& page, float* tile) {
  RowProducts<B>::decode(shape, page.block, whole_panels(page.end), shape.depth, key_tile(tile, shape.depth));
}
template <int B>
void Products<B>::row_value_tile(const PageShape& shape, const PageRef& page, float* tile) {
  RowProducts<B>::decode(shape, page.block, shape.lanes, (page.end + 3) / 4 * 4, value_tile(tile));
}

template <int B>
void Products<B>::pack(const PageShape& shape, const std::uint8_t* codes, std::byte* to) {
  pack_matrix<B>(codes, shape.lanes, shape.depth, to);
}

}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
