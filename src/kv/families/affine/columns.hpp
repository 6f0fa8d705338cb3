// Pages whose scales vary along the lanes of the packed matrix (kv/families/packed/layout.hpp): per group of depth and
// lane. Keys per token: lanes are tokens, depth is channels. For sources compiled per instruction set.
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
  static constexpr int kMaxGroups = kMaxDepth / 32;
  float scale[kMaxGroups][G];
  float shift[kMaxGroups][G];  // -scale * (middle of the codes) * sum
  float total[kMaxGroups][G];  // of the row as given
  std::int32_t sum[kMaxGroups][G];
  alignas(64) std::int8_t x[G][kMaxDepth + 64];  // not a whole number of 4 KiB apart
};

template <int B>
struct ColumnProducts {
  using Word = std::uint16_t;

  template <int G>
  static void quantize(const PageShape& shape, const float* x, std::ptrdiff_t stride, QuantizedRows<G>& to) {
    for (int r = 0; r < G; ++r) {
      const float* row = x + r * stride;
      for (int k = 0, j = 0; k < shape.depth; ++j) {
        const int n = group_end(k, shape.group, shape.depth) - k;
        const Int8Row q = quantize_row(row + k, n, to.x[r] + k);
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

  // out[r * pitch + lane] = sum over depth of the row times x^[k][lane], for the lanes of [begin, end) and some around.
  template <int G>
  static void multiply(const PageShape& shape, const std::byte* page, const std::byte* next,
                       const QuantizedRows<G>& rows, int begin, int end, float* out, std::ptrdiff_t pitch) {
    const std::size_t header = column_header_bytes(shape);
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const auto left = LeftRows<B, Codes, G>::of(rows.x[0], sizeof rows.x[0], shape.depth);
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
        k = stop;
      }
      KVASIR_UNROLL(8)
      for (int r = 0; r < G; ++r) store(out + r * pitch + lane, total[r]);
    }
  }

  // Calls f(lane, k, F32 of 16 lanes' numbers) for lanes below `lanes` and all depth.
  template <class F>
  static void decode(const PageShape& shape, const std::byte* page, int lanes, F f) {
    const std::size_t panel = packed_panel_bytes(B, shape.depth);
    const std::byte* codes = page + column_header_bytes(shape);
    for (int lane = 0; lane < lanes; lane += kPackedLanes, codes += panel) {
      const auto* group = reinterpret_cast<const Word*>(page) + lane;
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
