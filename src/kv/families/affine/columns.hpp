// Pages whose scales vary along the lanes of the packed matrix (kv/families/packed/layout.hpp): per group of depth and
// lane. Keys per token (lanes are tokens, depth is channels) and values per channel (the other way round). For sources
// compiled per instruction set.
//
//   for each group of depth: half s[lanes], half m[lanes]; then the packed codes
//
// The left factor becomes 8-bit integers per row and group of depth, once for many pages; s multiplies the integer
// sums.
#pragma once

#include "kv/families/affine/grid.hpp"
#include "kv/families/affine/page.hpp"
#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/int8_row.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// The left rows, per group of depth.
template <int G>
struct QuantizedRows {
  static constexpr int kMaxGroups = kMaxDepth * kMostShared / kPackedUnit;
  float scale[kMaxGroups][G];
  float shift[kMaxGroups][G];  // -scale * (middle of the codes) * sum
  float total[kMaxGroups][G];  // of the row as given
  std::int32_t sum[kMaxGroups][G];
  // Not a whole number of 4 KiB apart. x[0] has all; of small groups x[i] has the i-th of every unit of depth and zeros
  // elsewhere.
  alignas(64) std::int8_t x[kMostShared][G][kMaxDepth + 64];
};

template <int B>
struct ColumnProducts {
  using Word = std::uint16_t;

  template <int G>
  static void quantize(const PageShape& shape, const float* x, std::ptrdiff_t stride, QuantizedRows<G>& to) {
    if (is_small(shape.group)) return quantize_small(shape, x, stride, to);
    for (int r = 0; r < G; ++r) {
      const float* row = x + r * stride;
      for (int k = 0, j = 0; k < shape.depth; ++j) {
        const int n = group_end(k, shape.group, shape.depth) - k;
        const Int8Row q = quantize_row(row + k, n, to.x[0][r] + k);
        F32 total = zero();
        for (int i = 0; i < n; i += kLanes) total = add(total, load(row + k + i));
        to.scale[j][r] = q.scale;
        to.shift[j][r] = -q.scale * (kCodeMiddle<B> * static_cast<float>(q.sum));
        to.total[j][r] = reduce_add(total);
        to.sum[j][r] = q.sum;
        k += n;
      }
    }
  }

  // A unit's numbers share a scale, and each of its groups has sums of its own.
  template <int G>
  static void quantize_small(const PageShape& shape, const float* x, std::ptrdiff_t stride, QuantizedRows<G>& to) {
    const int shared = kPackedUnit / shape.group;
    for (int r = 0; r < G; ++r)
      for (int k = 0; k < shape.depth; k += kPackedUnit) {
        const float* row = x + r * stride + k;
        std::int8_t all[kPackedUnit];
        const Int8Row q = quantize_row(row, kPackedUnit, all);
        for (int p = 0; p < shared; ++p) {
          const int j = k / shape.group + p;
          std::int8_t* part = to.x[p][r] + k;
          float total = 0;
          std::int32_t sum = 0;
          __builtin_memset(part, 0, kPackedUnit);
          for (int i = p * shape.group; i < (p + 1) * shape.group; ++i) {
            part[i] = all[i];
            sum += all[i];
            total += row[i];
          }
          to.scale[j][r] = q.scale;
          to.shift[j][r] = -q.scale * (kCodeMiddle<B> * static_cast<float>(sum));
          to.total[j][r] = total;
          to.sum[j][r] = sum;
        }
      }
  }

  // rest (G, depth): what the integers of `rows` leave of x.
  template <int G>
  static void leave_rest(const PageShape& shape, const float* x, std::ptrdiff_t stride, const QuantizedRows<G>& rows,
                         float* rest) {
    const int shared = is_small(shape.group) ? kPackedUnit / shape.group : 1;
    for (int r = 0; r < G; ++r)
      for (int k = 0; k < shape.depth; ++k) {
        const int j = k / shape.group;
        const auto taken = static_cast<float>(rows.x[j % shared][r][k]);
        rest[r * shape.depth + k] = x[r * stride + k] - rows.scale[j][r] * taken;
      }
  }
  // The middle of the codes is in floats, so a rest has no part in it.
  template <int G>
  static void forget_totals(const PageShape& shape, QuantizedRows<G>& rows) {
    for (int j = 0; j < groups_of(shape.depth, shape.group); ++j)
      for (int r = 0; r < G; ++r) rows.total[j][r] = 0;
  }

  // Adds what group j of depth gives, whose integer sums are acc.
  template <int G>
  KVASIR_INLINE void add_group(const PageShape& shape, const std::byte* page, const std::byte* next,
                               const QuantizedRows<G>& rows, int j, int lane, const I32 (&acc)[G], F32 (&total)[G]) {
    const std::ptrdiff_t at = (static_cast<std::ptrdiff_t>(j) * 2 * shape.lanes) + lane;
    const auto* group = reinterpret_cast<const Word*>(page) + at;
    if (lane % 32 == 0) {
      fetch_ahead(reinterpret_cast<const Word*>(next) + at);
      fetch_ahead(reinterpret_cast<const Word*>(next) + at + shape.lanes);
    }
    const F32 s = load_f16(group);
    const F32 middle = middle_of<B>(shape.shift, s, load_f16(group + shape.lanes));
    KVASIR_UNROLL(8)
    for (int r = 0; r < G; ++r) {
      total[r] = fma(middle, set1(rows.total[j][r]), total[r]);
      total[r] = fma(s, fma(to_f32(acc[r]), set1(rows.scale[j][r]), set1(rows.shift[j][r])), total[r]);
    }
  }

  // multiply, of small groups: one pass over a unit for each of its groups.
  template <int G>
  static void multiply_small(const PageShape& shape, const std::byte* page, const std::byte* next,
                             const QuantizedRows<G>& rows, int begin, int end, float* out, std::ptrdiff_t pitch) {
    const std::size_t header = column_header_bytes(shape);
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const int shared = kPackedUnit / shape.group;
    for (int lane = begin / kPackedLanes * kPackedLanes; lane < end; lane += kPackedLanes) {
      std::size_t codes = header + panel * static_cast<std::size_t>(lane / kPackedLanes);
      F32 total[G];
      KVASIR_UNROLL(8)
      for (int r = 0; r < G; ++r) total[r] = zero();
      for (int k = 0; k < shape.depth; k += kPackedUnit, codes += packed_unit_bytes(B))
        for (int p = 0; p < shared; ++p) {
          const int j = k / shape.group + p;
          I32 acc[G];
          KVASIR_UNROLL(8)
          for (int r = 0; r < G; ++r) acc[r] = dots_start<B, Codes>(rows.sum[j][r]);
          panel_dots<B, Codes, G>(page + codes, 0, kPackedUnit, Codes{}, rows.x[p][0] + k, sizeof rows.x[p][0],
                                  next + codes, acc);
          add_group<G>(shape, page, next, rows, j, lane, acc, total);
        }
      KVASIR_UNROLL(8)
      for (int r = 0; r < G; ++r) store(out + r * pitch + lane, total[r]);
    }
  }

  // out[r * pitch + lane] = sum over depth of the row times x^[k][lane], for the lanes of [begin, end) and some around.
  template <int G>
  static void multiply(const PageShape& shape, const std::byte* page, const std::byte* next,
                       const QuantizedRows<G>& rows, int begin, int end, float* out, std::ptrdiff_t pitch) {
    if (is_small(shape.group)) return multiply_small(shape, page, next, rows, begin, end, out, pitch);
    const std::size_t header = column_header_bytes(shape);
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const auto left = LeftRows<B, Codes, G>::of(rows.x[0][0], sizeof rows.x[0][0], shape.depth);
    for (int lane = begin / kPackedLanes * kPackedLanes; lane < end; lane += kPackedLanes) {
      const std::size_t codes = header + panel * static_cast<std::size_t>(lane / kPackedLanes);
      F32 total[G];
      KVASIR_UNROLL(8)
      for (int r = 0; r < G; ++r) total[r] = zero();
      for (int k = 0, j = 0; k < shape.depth; ++j) {
        const int stop = group_end(k, shape.group, shape.depth);
        I32 acc[G];
        KVASIR_UNROLL(8)
        for (int r = 0; r < G; ++r) acc[r] = dots_start<B, Codes>(rows.sum[j][r]);
        panel_dots<B>(page + codes, k, stop, Codes{}, left, next + codes, acc);
        add_group<G>(shape, page, next, rows, j, lane, acc, total);
        k = stop;
      }
      KVASIR_UNROLL(8)
      for (int r = 0; r < G; ++r) store(out + r * pitch + lane, total[r]);
    }
  }

  template <class F>
  static void decode_small(const PageShape& shape, const Word* group, const std::byte* codes, int lane, F f) {
    const int shared = kPackedUnit / shape.group;
    for (int k = 0; k < shape.depth; k += kPackedUnit) {
      F32 s[kMostShared];
      F32 origin[kMostShared];
      for (int p = 0; p < shared; ++p, group += 2 * shape.lanes) {
        s[p] = load_f16(group);
        origin[p] = origin_of<B>(shape.shift, s[p], load_f16(group + shape.lanes));
      }
      panel_floats<B>(
          codes, k, k + kPackedUnit, Codes{}, [&](int at, F32 row) __attribute__((always_inline)) {
            const int p = (at - k) / shape.group;
            f(lane, at, fma(row, s[p], origin[p]));
          });
    }
  }

  // Calls f(lane, k, F32 of 16 lanes' numbers) for lanes below `lanes` and all depth.
  template <class F>
  static void decode(const PageShape& shape, const std::byte* page, int lanes, F f) {
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const std::byte* codes = page + column_header_bytes(shape);
    for (int lane = 0; lane < lanes; lane += kPackedLanes, codes += panel) {
      const auto* group = reinterpret_cast<const Word*>(page) + lane;
      if (is_small(shape.group)) {
        decode_small(shape, group, codes, lane, f);
        continue;
      }
      for (int k = 0; k < shape.depth; group += 2 * shape.lanes) {
        const int stop = group_end(k, shape.group, shape.depth);
        const F32 s = load_f16(group);
        const F32 origin = origin_of<B>(shape.shift, s, load_f16(group + shape.lanes));
        panel_floats<B>(
            codes, k, stop,
            Codes{}, [&](int at, F32 row) __attribute__((always_inline)) { f(lane, at, fma(row, s, origin)); });
        k = stop;
      }
    }
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
