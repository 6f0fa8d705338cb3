// Choosing scales, minima and codes of affine pages (kv/families/affine/rows.hpp, columns.hpp) on a grid. For sources
// compiled per instruction set.
#pragma once

#include "kv/families/affine/hqq.hpp"
#include "kv/families/affine/products.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

template <class Grid>
struct ColumnScaled {
  static constexpr int B = Grid::kBits;
  using Word = std::uint16_t;

  static std::size_t bytes(const PageShape& shape) {
    return column_header_bytes(shape) + packed_bytes(B, shape.lanes, shape.depth);
  }

  // x (depth, lanes) finite; codes: scratch for as many bytes.
  static void encode(const PageShape& shape, const float* x, std::uint8_t* codes, std::byte* page) {
    auto* group = reinterpret_cast<Word*>(page);
    for (int k = 0; k < shape.depth; group += 2 * shape.lanes) {
      const int stop = group_end(k, shape.group, shape.depth);
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(k) * shape.lanes;
      for (int lane = 0; lane < shape.lanes; lane += kLanes)
        encode_column(x + at + lane, shape.lanes, stop - k, group + lane, group + shape.lanes + lane,
                      codes + at + lane);
      k = stop;
    }
    Products<B>::pack(shape, codes, page + column_header_bytes(shape));
  }

  // n rows of 16 lanes.
  KVASIR_INLINE void encode_column(const float* x, std::ptrdiff_t stride, int n, Word* s, Word* m,
                                   std::uint8_t* codes) {
    F32 low = load(x);
    F32 high = low;
    for (int i = 1; i < n; ++i) {
      const F32 v = load(x + i * stride);
      low = min(low, v);
      high = max(high, v);
    }
    store_f16(s, scale_of<Grid>(low, high));
    store_f16(m, add(low, zero()));  // + 0: a minimum of -0 is stored as 0 by every instruction set
    if constexpr (Grid::kRefines) store_f16(m, hqq_refine<Grid>(x, stride, n, load_f16(s), load_f16(m)));
    const F32 first = load_f16(m);
    const F32 inverse = inverse_of(load_f16(s));
    for (int i = 0; i < n; ++i)
      store_low_bytes(codes + i * stride,
                      to_i32(clamp_place<Grid>(place_of<Grid>(load(x + i * stride), first, inverse))));
  }
};

template <class Grid>
struct RowScaled {
  static constexpr int B = Grid::kBits;
  using Word = std::uint16_t;

  static std::size_t bytes(const PageShape& shape) {
    return row_header_bytes(shape) + packed_bytes(B, shape.lanes, shape.depth);
  }

  // x (depth, lanes) finite; codes: scratch for as many bytes. Lanes below `skip` get codes 0.
  static void encode(const PageShape& shape, const float* x, std::uint8_t* codes, int skip, std::byte* page) {
    auto* group = reinterpret_cast<Word*>(page);
    for (int lane = 0; lane < shape.lanes; group += 2 * shape.depth) {
      const int end = group_end(lane, shape.group, shape.lanes);
      for (int k = 0; k < shape.depth; k += kLanes)
        encode_rows(x + static_cast<std::ptrdiff_t>(k) * shape.lanes + lane, shape.lanes, end - lane, group + k,
                    group + shape.depth + k, codes + static_cast<std::ptrdiff_t>(k) * shape.lanes + lane);
      lane = end;
    }
    if (skip > 0)
      for (int k = 0; k < shape.depth; ++k)
        __builtin_memset(codes + static_cast<std::ptrdiff_t>(k) * shape.lanes, 0, static_cast<std::size_t>(skip));
    Products<B>::pack(shape, codes, page + row_header_bytes(shape));
  }

  // 16 rows of one group of n lanes.
  KVASIR_INLINE void encode_rows(const float* x, std::ptrdiff_t stride, int n, Word* s, Word* m, std::uint8_t* codes) {
    if (n < kLanes) return encode_small(x, stride, n, s, m, codes);
    encode_wide(x, stride, n, s, m, codes, stride);
  }

  // A small group fills 16 lanes again and again, which changes no range; HQQ's sums are over the n alone.
  static void encode_small(const float* x, std::ptrdiff_t stride, int n, Word* s, Word* m, std::uint8_t* codes) {
    alignas(64) float rows[kLanes * kLanes];
    std::uint8_t all[kLanes * kLanes];
    for (int i = 0; i < kLanes; ++i)
      for (int l = 0; l < kLanes; ++l) rows[i * kLanes + l] = x[i * stride + l % n];
    encode_wide(rows, kLanes, n, s, m, all, kLanes);
    for (int i = 0; i < kLanes; ++i)
      __builtin_memcpy(codes + i * stride, all + i * kLanes, static_cast<std::size_t>(n));
  }

  // codes: rows of code_stride. Reads and writes whole vectors.
  KVASIR_INLINE void encode_wide(const float* x, std::ptrdiff_t stride, int n, Word* s, Word* m, std::uint8_t* codes,
                                 std::ptrdiff_t code_stride) {
    alignas(64) float low[kLanes];
    alignas(64) float high[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const float* row = x + i * stride;
      F32 a = load(row);
      F32 b = a;
      for (int l = kLanes; l < n; l += kLanes) {
        a = min(a, load(row + l));
        b = max(b, load(row + l));
      }
      low[i] = -reduce_max(sub(zero(), a));
      high[i] = reduce_max(b);
    }
    store_f16(s, scale_of<Grid>(load(low), load(high)));
    store_f16(m, add(load(low), zero()));  // + 0: a minimum of -0 is stored as 0 by every instruction set
    if constexpr (Grid::kRefines) refine(x, stride, n, s, m);
    store(low, load_f16(m));
    store(high, inverse_of(load_f16(s)));
    for (int i = 0; i < kLanes; ++i) {
      const F32 first = set1(low[i]);
      const F32 inverse = set1(high[i]);
      for (int l = 0; l < n; l += kLanes)
        store_low_bytes(codes + i * code_stride + l,
                        to_i32(clamp_place<Grid>(place_of<Grid>(load(x + i * stride + l), first, inverse))));
    }
  }

  // to[kLanes l + i] = x[stride i + l] for i and l below 4.
  KVASIR_INLINE void turn_square(const float* x, std::ptrdiff_t stride, float* to) {
    using Four = float __attribute__((vector_size(16)));
    Four row[4];
    for (int i = 0; i < 4; ++i) __builtin_memcpy(&row[i], x + i * stride, sizeof(Four));
    const Four a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
    const Four b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    const Four c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
    const Four d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    const Four column[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                            __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
    for (int l = 0; l < 4; ++l) __builtin_memcpy(to + l * kLanes, &column[l], sizeof(Four));
  }

  // Turned, so that the 16 rows are the lanes of a vector. REQUIRES: n % 4 == 0.
  static void refine(const float* x, std::ptrdiff_t stride, int n, const Word* s, Word* m) {
    alignas(64) float turned[kMaxDepth * kLanes];
    for (int i = 0; i < kLanes; i += 4)
      for (int l = 0; l < n; l += 4) turn_square(x + i * stride + l, stride, turned + l * kLanes + i);
    store_f16(m, hqq_refine<Grid>(turned, kLanes, n, load_f16(s), load_f16(m)));
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
