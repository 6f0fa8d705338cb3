// Pages whose scales vary along the depth of the packed matrix (kv/packed_layout.hpp): per group of lanes and row of
// depth. Keys per channel (lanes are tokens, depth is channels) and values per token (lanes are channels, depth is
// tokens). For sources compiled per instruction set.
//
//   for each group of lanes: half s[depth], half m[depth]; then the packed codes
//
// The scales are folded into the left factor: sum_k x_k x^_k = sum_k (x_k s_k) code_k + sum_k x_k m_k. The products
// x_k s_k become 8-bit integers, per row and group of lanes; the middle of the codes is summed in floats together with
// m.
#pragma once

#include "kv/codecs/affine_hqq.hpp"
#include "kv/codecs/affine_page.hpp"
#include "kv/packed.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// Left rows times the scales of one group of lanes: x[k] * s[k] is scale * (high[k] + low[k] / 254), low 0 unless
// `fine`.
template <int G>
struct FoldedRows {
  bool any_fine;
  bool fine[G];  // rows do not depend on each other
  float scale[G];
  float inverse[G];  // of the scale; 0 for rows that have no integers
  float base[G];     // sum of x times the middle of the group
  std::int32_t sum[G];
  std::int32_t low_sum[G];
  alignas(64) std::int8_t high[G][kMaxDepth];
  alignas(64) std::int8_t low[G][kMaxDepth];
  alignas(64) float product[G][kMaxDepth];
};

// When the second plane is taken. The first one's rounding is scale^2 / 12 per product, which a few products far above
// the others make large against what counts: the square of the ratio is below depth * scale^2 / (12 * sum of squares),
// and may be 1/64.
inline constexpr float kLowUnit = 1.0f / 254.0f;
inline constexpr float kFineLimit = 64.0f * 64.0f / 12.0f;

// s and middles of a group as floats; zeros behind them up to a multiple of 64.
struct GroupFloats {
  alignas(64) float s[kMaxDepth];
  alignas(64) float middle[kMaxDepth];
};

template <class Grid>
KVASIR_INLINE void read_group(const std::uint16_t* group, const std::uint16_t* next, int depth, GroupFloats& to) {
  for (int k = 0; k < depth; k += kLanes) {
    if (k % 32 == 0) {
      __builtin_prefetch(next + k, 0, 2);
      __builtin_prefetch(next + depth + k, 0, 2);
    }
    const F32 s = load_f16(group + k);
    store(to.s + k, s);
    store(to.middle + k, middle_of<Grid>(s, load_f16(group + depth + k)));
  }
}

// 64 products from p on as bytes: to nearest even, and what that leaves.
KVASIR_INLINE Bytes first_plane(const float* p, F32 inverse) {
  const auto part = [&](int i) __attribute__((always_inline)) { return to_i32(mul(load(p + i * kLanes), inverse)); };
  return to_signed_bytes(part(0), part(1), part(2), part(3));
}
KVASIR_INLINE Bytes second_plane(const float* p, F32 inverse) {
  const auto part = [&](int i) __attribute__((always_inline)) {
    const F32 x = mul(load(p + i * kLanes), inverse);
    return to_i32(mul(sub(x, round(x)), set1(254.0f)));
  };
  return to_signed_bytes(part(0), part(1), part(2), part(3));
}

// Each step for all rows before the next: reductions and divisions of the rows then overlap.
template <int G>
KVASIR_INLINE void fold_rows(const GroupFloats& group, const float* x, std::ptrdiff_t stride, int depth,
                             FoldedRows<G>& to) {
  F32 largest[G];
  F32 middles[G];
  F32 squares[G];
  KVASIR_UNROLL(1)
  for (int r = 0; r < G; ++r) {
    F32 a = zero();
    F32 b = zero();
    F32 c = zero();
    KVASIR_UNROLL(2)
    for (int k = 0; k < depth; k += kLanes) {
      const F32 v = load(x + r * stride + k);
      const F32 p = mul(v, load(group.s + k));
      store(to.product[r] + k, p);
      a = max(a, abs(p));
      b = fma(v, load(group.middle + k), b);
      c = fma(p, p, c);
    }
    for (int k = depth; k % 64 != 0; k += kLanes) store(to.product[r] + k, zero());
    largest[r] = a;
    middles[r] = b;
    squares[r] = c;
  }
  to.any_fine = false;
  KVASIR_UNROLL(8)
  for (int r = 0; r < G; ++r) {
    to.base[r] = reduce_add(middles[r]);
    const float top = reduce_max(largest[r]);
    // Else the integers are 0, and what is not finite shows in the base.
    const bool usable = top >= 1.5e-36f && top <= 3e38f && to.base[r] - to.base[r] == 0.0f;
    to.scale[r] = usable ? top / 127.0f : 0.0f;
    to.inverse[r] = usable ? 127.0f / top : 0.0f;
    const float limit = kFineLimit * static_cast<float>(depth) * to.scale[r] * to.scale[r];
    to.fine[r] = usable && reduce_add(squares[r]) < limit;
    to.any_fine |= to.fine[r];
  }
  I32 sums[G];
  KVASIR_UNROLL(1)
  for (int r = 0; r < G; ++r) {
    const F32 inverse = set1(to.inverse[r]);
    I32 sum = zero_i32();
    KVASIR_UNROLL(2)
    for (int k = 0; k < depth; k += 64) {
      const Bytes bytes = to.inverse[r] > 0.0f ? first_plane(to.product[r] + k, inverse) : zero_bytes();
      store_bytes(to.high[r] + k, bytes);
      sum = dot_us(sum, set1_bytes(1), bytes);
    }
    sums[r] = sum;
  }
  KVASIR_UNROLL(8)
  for (int r = 0; r < G; ++r) to.sum[r] = reduce_add(sums[r]);
}

template <int G>
KVASIR_INLINE void fold_low(int depth, int r, FoldedRows<G>& to) {
  const F32 inverse = set1(to.inverse[r]);
  I32 sum = zero_i32();
  KVASIR_UNROLL(1)
  for (int k = 0; k < depth; k += 64) {
    const Bytes bytes = to.fine[r] ? second_plane(to.product[r] + k, inverse) : zero_bytes();
    store_bytes(to.low[r] + k, bytes);
    sum = dot_us(sum, set1_bytes(1), bytes);
  }
  to.low_sum[r] = reduce_add(sum);
}

template <class Grid>
struct RowScaled {
  static constexpr int B = Grid::kBits;
  using Word = std::uint16_t;

  static std::size_t bytes(const PageShape& shape) {
    return header_bytes(shape) + packed_bytes(B, shape.lanes, shape.depth);
  }
  static std::size_t header_bytes(const PageShape& shape) {
    return static_cast<std::size_t>(groups_of(shape.lanes, shape.group)) * static_cast<std::size_t>(shape.depth) * 4;
  }

  // out[r * pitch + lane] = sum over depth of x[r * stride + k] * x^[k][lane], G rows.
  template <int G>
  static void multiply(const PageShape& shape, const std::byte* page, const std::byte* next, const float* x,
                       std::ptrdiff_t stride, float* out, std::ptrdiff_t pitch) {
    const std::size_t header = header_bytes(shape);
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    GroupFloats floats;
    FoldedRows<G> rows;
    std::size_t at = 0;  // of the group's scales
    std::size_t codes = header;
    for (int lane = 0; lane < shape.lanes; at += static_cast<std::size_t>(shape.depth) * 4) {
      read_group<Grid>(reinterpret_cast<const Word*>(page + at), reinterpret_cast<const Word*>(next + at), shape.depth,
                       floats);
      fold_rows<G>(floats, x, stride, shape.depth, rows);
      for (int r = 0; r < G; ++r) {
        rows.low_sum[r] = 0;
        if (rows.any_fine) fold_low(shape.depth, r, rows);
        const float sum = static_cast<float>(rows.sum[r]) + static_cast<float>(rows.low_sum[r]) * kLowUnit;
        rows.base[r] -= rows.scale[r] * (kCodeMiddle<Grid> * sum);
      }
      for (const int end = group_end(lane, shape.group, shape.lanes); lane < end;
           lane += kPackedLanes, codes += panel) {
        F32 total[G];
        KVASIR_UNROLL(8)
        for (int r = 0; r < G; ++r) total[r] = set1(rows.base[r]);
        add_plane<G>(shape, page + codes, next + codes, rows.high[0], rows.sum, rows.scale, 1.0f, total);
        if (rows.any_fine)
          add_plane<G>(shape, page + codes, page + codes, rows.low[0], rows.low_sum, rows.scale, kLowUnit, total);
        KVASIR_UNROLL(8)
        for (int r = 0; r < G; ++r) store(out + r * pitch + lane, total[r]);
      }
    }
  }

  template <int G>
  KVASIR_INLINE void add_plane(const PageShape& shape, const std::byte* panel, const std::byte* next,
                               const std::int8_t* x, const std::int32_t* sums, const float* scales, float unit,
                               F32 (&total)[G]) {
    I32 acc[G];
    KVASIR_UNROLL(8)
    for (int r = 0; r < G; ++r) acc[r] = dots_start<B, Codes>(sums[r]);
    panel_dots<B, Codes, G>(panel, 0, shape.depth, Codes{}, x, kMaxDepth, next, acc);
    KVASIR_UNROLL(8)
    for (int r = 0; r < G; ++r) total[r] = fma(to_f32(acc[r]), set1(scales[r] * unit), total[r]);
  }

  // Calls f(lane, k, F32 of 16 lanes' numbers) for lanes below `lanes` and depth below `depth`, multiples of 16 and 4.
  template <class F>
  static void decode(const PageShape& shape, const std::byte* page, int lanes, int depth, F f) {
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const std::byte* codes = page + header_bytes(shape);
    alignas(64) float s[kMaxDepth];
    alignas(64) float origin[kMaxDepth];
    auto* group = reinterpret_cast<const Word*>(page);
    for (int lane = 0; lane < lanes; group += 2 * shape.depth) {
      for (int k = 0; k < depth; k += kLanes) {
        const F32 scale = load_f16(group + k);
        store(s + k, scale);
        store(origin + k, origin_of<Grid>(scale, load_f16(group + shape.depth + k)));
      }
      const int end = smaller(lanes, group_end(lane, shape.group, shape.lanes));
      for (; lane < end; lane += kPackedLanes, codes += panel)
        panel_floats<B>(
            codes, 0, depth, Codes{}, [&](int k, F32 row) __attribute__((always_inline)) {
              f(lane, k, fma(row, set1(s[k]), set1(origin[k])));
            });
    }
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
    pack_codes<B>(shape, codes, page + header_bytes(shape));
  }

  // 16 rows of one group of n lanes.
  KVASIR_INLINE void encode_rows(const float* x, std::ptrdiff_t stride, int n, Word* s, Word* m, std::uint8_t* codes) {
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
        store_low_bytes(codes + i * stride + l,
                        to_i32(clamp_place<Grid>(place_of<Grid>(load(x + i * stride + l), first, inverse))));
    }
  }

  // Turned, so that the 16 rows are the lanes of a vector.
  static void refine(const float* x, std::ptrdiff_t stride, int n, const Word* s, Word* m) {
    alignas(64) float turned[kMaxDepth * kLanes];
    for (int i = 0; i < kLanes; ++i)
      for (int l = 0; l < n; ++l) turned[l * kLanes + i] = x[i * stride + l];
    store_f16(m, hqq_refine<Grid>(turned, kLanes, n, load_f16(s), load_f16(m)));
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
