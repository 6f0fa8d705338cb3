// Pages whose scales vary along the depth of the packed matrix (kv/families/packed/layout.hpp): per group of lanes and
// row of depth. Keys per channel (lanes are tokens, depth is channels) and values per token (lanes are channels, depth
// is tokens). For sources compiled per instruction set.
//
//   for each group of lanes: half s[depth], half m[depth]; then the packed codes
//
// The scales are folded into the left factor: sum_k x_k x^_k = sum_k (x_k s_k) code_k + sum_k x_k m_k. The products
// x_k s_k become 8-bit integers, per row and group of lanes; the middle of the codes is summed in floats together with
// m.
#pragma once

#include "kv/families/affine/grid.hpp"
#include "kv/families/affine/page.hpp"
#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/int8_row.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// Left rows times the scales of a group of lanes, for a few groups at once, because each group's reductions and
// divisions would be waited for. Row r of group j is row i = j * G + r here: x[k] * s[k] is scale[i] * (high[i][k] +
// low[i][k] / 254), low 0 unless `excess` is above 0. Rows are depth + kRowPad apart: in lines of their own, and not at
// the same places of different 4 KiB, where they would drive each other out of the first-level cache.
inline constexpr int kRowPad = 64;
inline constexpr int kFewDepth = 256;  // up to here more than one group at once
template <int G>
struct FoldedRows {
  static constexpr int kGroups = G <= 4 ? 4 : kLanes / G;
  static constexpr int kRows = kGroups * G;
  static_assert(kRows <= kLanes);
  static constexpr int kFew = kRows * (kFewDepth + kRowPad);
  static constexpr int kOne = G * (kMaxDepth + kRowPad);
  static constexpr int kFloats = kFew > kOne ? kFew : kOne;

  bool any_fine;
  alignas(64) float scale[kLanes];
  alignas(64) float inverse[kLanes];  // of the scale; 0 for rows that have no integers
  alignas(64) float base[kLanes];     // what the integers leave out: the middle of the group
  alignas(64) float excess[kLanes];   // above 0 for rows that are fine; rows do not depend on each other
  alignas(64) std::int32_t sum[kLanes];
  alignas(64) std::int32_t low_sum[kLanes];
  alignas(64) std::int8_t high[kFloats];
  alignas(64) std::int8_t low[kFloats];
  alignas(64) float product[kFloats];
};
KVASIR_INLINE std::ptrdiff_t row_pitch(int depth) { return (depth + kRowPad - 1) / kRowPad * kRowPad + kRowPad; }

// When the second plane is taken. The first one's rounding is scale^2 / 12 per product, which a few products far above
// the others make large against what counts: the square of the ratio is below depth * scale^2 / (12 * sum of squares),
// and may be 1/64.
inline constexpr float kLowUnit = 1.0f / 254.0f;
inline constexpr float kFineLimit = 64.0f * 64.0f / 12.0f;

// s and middles of a group as floats.
struct GroupFloats {
  alignas(64) float s[kMaxDepth + kRowPad];
  alignas(64) float middle[kMaxDepth + kRowPad];
};

template <int B>
KVASIR_INLINE void read_group(const std::uint16_t* group, const std::uint16_t* next, int depth, float shift,
                              GroupFloats& to) {
  for (int k = 0; k < depth; k += kLanes) {
    if (k % 32 == 0) {
      fetch_ahead(next + k);
      fetch_ahead(next + depth + k);
    }
    const F32 s = load_f16(group + k);
    store(to.s + k, s);
    store(to.middle + k, middle_of<B>(shift, s, load_f16(group + depth + k)));
  }
}

// Of every row vectors that remain to be reduced, all rows at once.
struct FoldSums {
  F32 top[kLanes];  // largest size
  F32 base[kLanes];
  F32 power[kLanes];
};
template <class V>
KVASIR_INLINE V add_rows(const V (&x)[kLanes], int rows) {
  return rows <= 8 ? reduce_add_rows<8>(x) : reduce_add_rows<16>(x);
}

// Products of G rows with one group; behind them zeros up to a multiple of 64.
template <int G>
KVASIR_INLINE void multiply_group(const GroupFloats& group, const float* x, std::ptrdiff_t stride, int depth,
                                  float* product, FoldSums& sums, int row) {
  const std::ptrdiff_t pitch = row_pitch(depth);
  KVASIR_UNROLL(1)
  for (int r = 0; r < G; ++r) {
    F32 a = zero();
    F32 b = zero();
    F32 c = zero();
    KVASIR_UNROLL(2)
    for (int k = 0; k < depth; k += kLanes) {
      const F32 v = load(x + r * stride + k);
      const F32 p = mul(v, load(group.s + k));
      store(product + r * pitch + k, p);
      a = max(a, abs(p));
      b = fma(v, load(group.middle + k), b);
      c = fma(p, p, c);
    }
    for (int k = depth; k % 64 != 0; k += kLanes) store(product + r * pitch + k, zero());
    sums.top[row + r] = a;
    sums.base[row + r] = b;
    sums.power[row + r] = c;
  }
}

// Scales of all rows. Where the largest product or the base is not finite, or all are too small, the integers are 0,
// and what is not finite shows in the base.
template <int G>
KVASIR_INLINE void scale_rows(const FoldSums& sums, int rows, int depth, FoldedRows<G>& to) {
  const F32 base = add_rows(sums.base, rows);
  const F32 largest = rows <= 8 ? reduce_max_rows<8>(sums.top) : reduce_max_rows<16>(sums.top);
  const F32 top = max(fma(base, zero(), largest), zero());  // 0 where the base is not finite
  const F32 least = set1(1.5e-36f);
  const F32 most = set1(3e38f);
  const F32 scale = zero_if_less(top, least, zero_if_less(most, top, div(top, set1(127.0f))));
  const F32 limit = mul(mul(set1(kFineLimit * static_cast<float>(depth)), scale), scale);
  const F32 excess = max(sub(limit, add_rows(sums.power, rows)), zero());
  store(to.base, base);
  store(to.scale, scale);
  store(to.inverse, zero_if_less(top, least, zero_if_less(most, top, div(set1(127.0f), top))));
  store(to.excess, excess);
  to.any_fine = reduce_max(excess) > 0.0f;
}

// The first plane of row i; returns its sums.
template <int G>
KVASIR_INLINE I32 round_row(int depth, int i, FoldedRows<G>& to) {
  const std::ptrdiff_t at = i * row_pitch(depth);
  I32 sum = zero_i32();
  if (to.inverse[i] > 0.0f) {
    KVASIR_UNROLL(2)
    for (int k = 0; k < depth; k += 64) {
      const Bytes bytes = rounded_bytes(to.product + at + k, set1(to.inverse[i]));
      store_bytes(to.high + at + k, bytes);
      sum = dot_us(sum, set1_bytes(1), bytes);
    }
  } else {
    for (int k = 0; k < depth; k += 64) store_bytes(to.high + at + k, zero_bytes());
  }
  return sum;
}

// What the first plane leaves of 64 products.
KVASIR_INLINE Bytes second_plane(const float* p, F32 inverse) {
  const auto part = [&](int i) __attribute__((always_inline)) {
    const F32 x = mul(load(p + i * kLanes), inverse);
    return to_i32(mul(sub(x, round(x)), set1(254.0f)));
  };
  return to_signed_bytes(part(0), part(1), part(2), part(3));
}
template <int G>
KVASIR_INLINE I32 round_rest(int depth, int i, FoldedRows<G>& to) {
  const std::ptrdiff_t at = i * row_pitch(depth);
  const F32 inverse = set1(to.inverse[i]);
  I32 sum = zero_i32();
  KVASIR_UNROLL(1)
  for (int k = 0; k < depth; k += 64) {
    const Bytes bytes = second_plane(to.product + at + k, inverse);
    store_bytes(to.low + at + k, bytes);
    sum = dot_us(sum, set1_bytes(1), bytes);
  }
  return sum;
}

// Groups [0, n) that lie behind each other at `page`, with their scales and codes' middle.
template <int B, int G>
KVASIR_INLINE void fold_groups(const PageShape& shape, const std::byte* page, const std::byte* next, int n,
                               const float* x, std::ptrdiff_t stride, FoldedRows<G>& to) {
  const int depth = shape.depth;
  GroupFloats floats;
  FoldSums sums;
  for (int i = n * G; i < kLanes; ++i) sums.top[i] = sums.base[i] = sums.power[i] = zero();
  for (int j = 0; j < n; ++j) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(j) * depth * 4;
    read_group<B>(reinterpret_cast<const std::uint16_t*>(page + at), reinterpret_cast<const std::uint16_t*>(next + at),
                  depth, shape.shift, floats);
    multiply_group<G>(floats, x, stride, depth, to.product + j * G * row_pitch(depth), sums, j * G);
  }
  scale_rows<G>(sums, n * G, depth, to);
  I32 parts[kLanes];
  for (int i = 0; i < kLanes; ++i) parts[i] = i < n * G ? round_row<G>(depth, i, to) : zero_i32();
  const I32 high = add_rows(parts, n * G);
  store_i32(to.sum, high);
  F32 sum = to_f32(high);
  if (to.any_fine) {
    for (int i = 0; i < kLanes; ++i) to.low_sum[i] = to.excess[i] > 0.0f ? reduce_add(round_rest<G>(depth, i, to)) : 0;
    sum = fma(to_f32(load_i32(to.low_sum)), set1(kLowUnit), sum);
  }
  store(to.base, sub(load(to.base), mul(load(to.scale), mul(set1(kCodeMiddle<B>), sum))));
}

template <int B>
struct RowProducts {
  using Word = std::uint16_t;

  // out[r * pitch + lane] = sum over depth of x[r * stride + k] * x^[k][lane], G rows.
  template <int G>
  static void multiply(const PageShape& shape, const std::byte* page, const std::byte* next, const float* x,
                       std::ptrdiff_t stride, float* out, std::ptrdiff_t pitch) {
    const std::size_t header = row_header_bytes(shape);
    const int groups = groups_of(shape.lanes, shape.group);
    const int most = shape.depth <= kFewDepth ? FoldedRows<G>::kGroups : 1;
    FoldedRows<G> rows;
    for (int j = 0; j < groups; j += most) {
      const int n = smaller(most, groups - j);
      const std::size_t at = static_cast<std::size_t>(j) * static_cast<std::size_t>(shape.depth) * 4;
      fold_groups<B, G>(shape, page + at, next + at, n, x, stride, rows);
      for (int i = 0; i < n; ++i) {
        const int first = (j + i) * shape.group;
        const int end = group_end(first, shape.group, shape.lanes);
        if (is_small(shape.group))
          multiply_some_lanes<G>(shape, first, end, page + header, next + header, rows, i * G, out, pitch);
        else
          multiply_lanes<G>(shape, first, end, page + header, next + header, rows, i * G, out + first, pitch);
      }
    }
  }

  // Lanes [first, end) of a panel: all 16 are multiplied, and the others left out.
  template <int G>
  static void multiply_some_lanes(const PageShape& shape, int first, int end, const std::byte* codes,
                                  const std::byte* next, const FoldedRows<G>& rows, int row, float* out,
                                  std::ptrdiff_t pitch) {
    alignas(64) float all[G][kPackedLanes];
    const int panel = first / kPackedLanes * kPackedLanes;
    multiply_lanes<G>(shape, panel, panel + kPackedLanes, codes, next, rows, row, all[0], kPackedLanes);
    for (int r = 0; r < G; ++r)
      __builtin_memcpy(out + r * pitch + first, all[r] + first - panel, static_cast<std::size_t>(end - first) * 4);
  }

  // out[r * pitch + lane - first] for whole panels of lanes [first, end), with the rows of a group from `row` on.
  template <int G>
  KVASIR_INLINE void multiply_lanes(const PageShape& shape, int first, int end, const std::byte* codes,
                                    const std::byte* next, const FoldedRows<G>& rows, int row, float* out,
                                    std::ptrdiff_t pitch) {
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const std::ptrdiff_t row_bytes = row_pitch(shape.depth);
    const Left<G> high = Left<G>::of(rows.high + row * row_bytes, row_bytes, shape.depth);
    for (int lane = first; lane < end; lane += kPackedLanes) {
      const std::size_t at = panel * static_cast<std::size_t>(lane / kPackedLanes);
      F32 total[G];
      KVASIR_UNROLL(8)
      for (int r = 0; r < G; ++r) total[r] = set1(rows.base[row + r]);
      add_plane<G>(shape, codes + at, next + at, high, rows.sum + row, rows.scale + row, 1.0f, total);
      KVASIR_UNROLL(8)
      for (int r = 0; r < G; ++r) store(out + r * pitch + lane - first, total[r]);
    }
    if (!rows.any_fine) return;
    // Few rows need it, so each on its own.
    for (int r = 0; r < G; ++r) {
      const int i = row + r;
      if (!(rows.excess[i] > 0.0f)) continue;
      const Left<1> low = Left<1>::of(rows.low + i * row_bytes, row_bytes, shape.depth);
      for (int lane = first; lane < end; lane += kPackedLanes) {
        const std::size_t at = panel * static_cast<std::size_t>(lane / kPackedLanes);
        F32 total[1] = {load(out + r * pitch + lane - first)};
        add_plane<1>(shape, codes + at, codes + at, low, rows.low_sum + i, rows.scale + i, kLowUnit, total);
        store(out + r * pitch + lane - first, total[0]);
      }
    }
  }

  template <int G>
  using Left = LeftRows<B, Codes, G>;

  template <int G>
  KVASIR_INLINE void add_plane(const PageShape& shape, const std::byte* panel, const std::byte* next,
                               const Left<G>& left, const std::int32_t* sums, const float* scales, float unit,
                               F32 (&total)[G]) {
    I32 acc[G];
    KVASIR_UNROLL(8)
    for (int r = 0; r < G; ++r) acc[r] = dots_start<B, Codes>(sums[r]);
    panel_dots<B>(panel, 0, shape.depth, Codes{}, left, next, acc);
    KVASIR_UNROLL(8)
    for (int r = 0; r < G; ++r) total[r] = fma(to_f32(acc[r]), set1(scales[r] * unit), total[r]);
  }

  // The groups of a panel each have scales of their own, of 16 rows of depth here.
  struct PanelScales {
    alignas(64) float s[kPackedUnit][kPackedLanes];
    alignas(64) float origin[kPackedUnit][kPackedLanes];
  };
  static void read_scales(const PageShape& shape, const Word* group, PanelScales& to) {
    alignas(64) float s[kLanes];
    alignas(64) float origin[kLanes];
    for (int first = 0; first < kPackedLanes; first += shape.group, group += 2 * shape.depth) {
      const F32 scale = load_f16(group);
      store(s, scale);
      store(origin, origin_of<B>(shape.shift, scale, load_f16(group + shape.depth)));
      for (int i = 0; i < kPackedUnit; ++i)
        for (int l = first; l < first + shape.group; ++l) {
          to.s[i][l] = s[i];
          to.origin[i][l] = origin[i];
        }
    }
  }
  template <class F>
  static void decode_small(const PageShape& shape, const Word* group, const std::byte* codes, int lanes, int depth,
                           F f) {
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const int shared = kPackedLanes / shape.group;
    PanelScales scales;
    for (int lane = 0; lane < lanes; lane += kPackedLanes, codes += panel, group += shared * 2 * shape.depth)
      for (int k = 0; k < depth; k += kPackedUnit) {
        read_scales(shape, group + k, scales);
        panel_floats<B>(
            codes, k, smaller(k + kPackedUnit, depth), Codes{}, [&](int at, F32 row) __attribute__((always_inline)) {
              f(lane, at, fma(row, load(scales.s[at - k]), load(scales.origin[at - k])));
            });
      }
  }

  // Calls f(lane, k, F32 of 16 lanes' numbers) for lanes below `lanes` and depth below `depth`, multiples of 16 and 4.
  template <class F>
  static void decode(const PageShape& shape, const std::byte* page, int lanes, int depth, F f) {
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const std::byte* codes = page + row_header_bytes(shape);
    auto* group = reinterpret_cast<const Word*>(page);
    if (is_small(shape.group)) return decode_small(shape, group, codes, lanes, depth, f);
    alignas(64) float s[kMaxDepth];
    alignas(64) float origin[kMaxDepth];
    for (int lane = 0; lane < lanes; group += 2 * shape.depth) {
      for (int k = 0; k < depth; k += kLanes) {
        const F32 scale = load_f16(group + k);
        store(s + k, scale);
        store(origin + k, origin_of<B>(shape.shift, scale, load_f16(group + shape.depth + k)));
      }
      const int end = smaller(lanes, group_end(lane, shape.group, shape.lanes));
      for (; lane < end; lane += kPackedLanes, codes += panel)
        panel_floats<B>(
            codes, 0, depth, Codes{}, [&](int k, F32 row) __attribute__((always_inline)) {
              f(lane, k, fma(row, set1(s[k]), set1(origin[k])));
            });
    }
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
