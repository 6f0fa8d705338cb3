// The products of affine codecs for many rows, by the matrix unit of AMX. Left rows are rounded to integers as the
// vectors do it, per group; a group's sums are exact, and so what is made of them in floats has the bits of RowProducts
// and ColumnProducts. For sources compiled per instruction set.
#pragma once

#include <algorithm>
#include <cstring>

#include "kv/families/affine/columns.hpp"
#include "kv/families/affine/products.hpp"
#include "kv/families/affine/rows.hpp"
#include "kv/families/packed/tiles.hpp"
#include "kv/families/row_blocks.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

#if defined(KVASIR_MAY_HAVE_TILES)

// Scales along the depth: every group of lanes has left rows of its own.
template <int B>
struct RowTiles {
  using Vectors = RowProducts<B>;
  static constexpr int kRows = kernel::kTileRows;
  static constexpr int kTogether = 2;  // groups whose rows are folded at once, as 8 rows of the vectors
  static_assert(kMaxDepth == kMostTileDepth && kTogether * kFewDepth <= kMaxDepth);
  static_assert(FoldedRows<kRowBlock>::kGroups >= kTogether);

  // Groups that share a panel would have all its lanes multiplied for each of them.
  static const kernel::TileKernels* wanted(const PageShape& shape, int rows) {
    return is_small(shape.group) ? nullptr : tiles_for(rows);
  }

  // FoldedRows of many rows; their high planes are in the tiles' work.
  struct Ends {
    float scale[kTogether][kRows];
    float base[kTogether][kRows];
    bool fine[kTogether][kRows];
    std::int32_t low_sum[kTogether][kRows];
    alignas(64) std::int8_t low[kRows * kMaxDepth];  // of rows that are fine

    template <int G>
    void take(const PageShape& shape, const FoldedRows<G>& from, int groups, int row, TileWork& work) {
      const auto depth = static_cast<std::size_t>(tile_depth(shape.depth));
      for (int j = 0; j < groups; ++j)
        for (int r = 0; r < G; ++r) {
          const int i = j * G + r;
          const std::ptrdiff_t at = i * row_pitch(shape.depth);
          std::memcpy(work.x + at_of(shape, j, row + r), from.high + at, depth);
          scale[j][row + r] = from.scale[i];
          base[j][row + r] = from.base[i];
          fine[j][row + r] = from.excess[i] > 0.0f;
          if (!fine[j][row + r]) continue;
          std::memcpy(low + at_of(shape, j, row + r), from.low + at, depth);
          low_sum[j][row + r] = from.low_sum[i];
        }
    }
  };
  static std::ptrdiff_t at_of(const PageShape& shape, int group, int row) {
    return (static_cast<std::ptrdiff_t>(group) * kRows + row) * tile_depth(shape.depth);
  }

  static void products(const kernel::TileKernels& kernels, const PageShape& shape, const PageRef* pages, int count,
                       const PageFactors& x, int g, const PageRows& out) {
    const TileUse tiles(kernels);
    TileWork work;
    Ends ends;
    for (int r = 0; r < g; r += kRows)
      for (int i = 0; i < count; ++i)
        multiply(tiles, shape, pages[i], x.first + r * x.row + i * x.page, x.row, std::min(kRows, g - r),
                 out.first + r * out.row + i * out.page, out.row, work, ends);
  }

  static void multiply(const TileUse& tiles, const PageShape& shape, const PageRef& page, const float* x,
                       std::ptrdiff_t stride, int n, float* out, std::ptrdiff_t pitch, TileWork& work, Ends& ends) {
    const std::byte* const next = page.next ? page.next : page.block;
    const int groups = groups_of(shape.lanes, shape.group);
    const int most = shape.depth <= kFewDepth ? kTogether : 1;
    for (int j = 0; j < groups; j += most) {
      const int m = smaller(most, groups - j);
      const std::size_t at = static_cast<std::size_t>(j) * static_cast<std::size_t>(shape.depth) * 4;
      for_row_blocks(n, [&]<int G>(int row) {
        FoldedRows<G> folded;
        fold_groups<B, G>(shape, page.block + at, next + at, m, x + row * stride, stride, folded);
        ends.take(shape, folded, m, row, work);
      });
      for (int i = 0; i < m; ++i) {
        const int first = (j + i) * shape.group;
        multiply_lanes(tiles, shape, first, group_end(first, shape.group, shape.lanes),
                       page.block + row_header_bytes(shape), i, n, out, pitch, work, ends);
      }
    }
  }

  // Lanes [first, last), whole panels, with the rows of group i.
  static void multiply_lanes(const TileUse& tiles, const PageShape& shape, int first, int last, const std::byte* codes,
                             int i, int n, float* out, std::ptrdiff_t pitch, TileWork& work, const Ends& ends) {
    const std::size_t panel_bytes = packed_panel_bytes(B, shape.depth);
    each_tile_panel<B>(
        tiles, codes, panel_bytes, first / kPackedLanes, last / kPackedLanes, shape.depth, 0, shape.depth, Codes{},
        work.x + at_of(shape, i, 0), work, [&](int panel, const std::int32_t* sums) __attribute__((always_inline)) {
          for (int r = 0; r < n; ++r)
            store(out + r * pitch + panel * kPackedLanes,
                  fma(to_f32(load_i32(sums + r * kPageTokens)), set1(ends.scale[i][r]), set1(ends.base[i][r])));
        });
    for (int r = 0; r < n; ++r) {  // few rows have a second plane
      if (!ends.fine[i][r]) continue;
      const auto low = LeftRows<B, Codes, 1>::of(ends.low + at_of(shape, i, r), 0, shape.depth);
      for (int lane = first; lane < last; lane += kPackedLanes) {
        const std::byte* const panel = codes + panel_bytes * static_cast<std::size_t>(lane / kPackedLanes);
        F32 total[1] = {load(out + r * pitch + lane)};
        Vectors::template add_plane<1>(shape, panel, panel, low, &ends.low_sum[i][r], &ends.scale[i][r], kLowUnit,
                                       total);
        store(out + r * pitch + lane, total[0]);
      }
    }
  }
};

// Scales along the lanes: every group of depth has sums of its own. Groups that are shorter than a tile is deep share
// one: left rows stand in it once for each, with zeros for the others.
template <int B>
struct ColumnTiles {
  using Vectors = ColumnProducts<B>;
  static constexpr int kRows = kernel::kTileRows;
  static constexpr int kShortest = kernel::kTileDepth / 2;  // of shorter groups a tile holds too few rows
  static constexpr int kMostGroups = kMaxDepth / kShortest;

  static const kernel::TileKernels* wanted(const PageShape& shape, int rows) {
    return shape.group < kShortest ? nullptr : tiles_for(rows);
  }

  // QuantizedRows of many rows.
  struct Rows {
    float scale[kMostGroups][kRows];
    float shift[kMostGroups][kRows];
    float total[kMostGroups][kRows];
    alignas(64) std::int8_t x[kRows][kMaxDepth];

    template <int G>
    void take(const PageShape& shape, const QuantizedRows<G>& from, int row) {
      for (int j = 0; j < groups_of(shape.depth, shape.group); ++j)
        for (int r = 0; r < G; ++r) {
          scale[j][row + r] = from.scale[j][r];
          shift[j][row + r] = from.shift[j][r];
          total[j][row + r] = from.total[j][r];
        }
      for (int r = 0; r < G; ++r) std::memcpy(x[row + r], from.x[0][r], static_cast<std::size_t>(shape.depth));
    }
  };

  static void dots(const kernel::TileKernels& kernels, const PageShape& shape, const PageRef* pages, int count,
                   const float* q, int g, const PageRows& out) {
    const TileUse tiles(kernels);
    TileWork work;
    Rows rows;
    for (int r = 0; r < g; r += kRows) {
      const int n = std::min(kRows, g - r);
      for_row_blocks(n, [&]<int G>(int row) {
        QuantizedRows<G> block;
        Vectors::quantize(shape, q + static_cast<std::ptrdiff_t>(r + row) * shape.depth, shape.depth, block);
        rows.take(shape, block, row);
      });
      for (int i = 0; i < count; ++i)
        multiply(tiles, shape, pages[i].block, rows, n, pages[i].begin, pages[i].end,
                 out.first + r * out.row + i * out.page, out.row, work);
    }
  }

  static void sums(const kernel::TileKernels& kernels, const PageShape& shape, const PageRef* pages, int count,
                   const PageFactors& weights, int g, const PageRows& out) {
    const TileUse tiles(kernels);
    TileWork work;
    Rows rows, rest_rows;
    alignas(64) float part[kRows * kMaxDepth];
    for (int r = 0; r < g; r += kRows) {
      const int n = std::min(kRows, g - r);
      for (int i = 0; i < count; ++i) {
        for_row_blocks(n, [&]<int G>(int row) {
          QuantizedRows<G> block;
          alignas(64) float rest[G][kPageTokens];
          const float* const x = weights.first + (r + row) * weights.row + i * weights.page;
          Vectors::quantize(shape, x, weights.row, block);
          rows.take(shape, block, row);
          Vectors::leave_rest(shape, x, weights.row, block, rest[0]);
          Vectors::quantize(shape, rest[0], kPageTokens, block);
          Vectors::forget_totals(shape, block);
          rest_rows.take(shape, block, row);
        });
        float* const to = out.first + r * out.row + i * out.page;
        multiply(tiles, shape, pages[i].block, rows, n, 0, shape.lanes, to, out.row, work);
        multiply(tiles, shape, pages[i].block, rest_rows, n, 0, shape.lanes, part, shape.lanes, work);
        for (int row = 0; row < n; ++row)
          for (int lane = 0; lane < shape.lanes; lane += kLanes) {
            float* const at = to + row * out.row + lane;
            store(at, add(load(at), load(part + static_cast<std::ptrdiff_t>(row) * shape.lanes + lane)));
          }
      }
    }
  }

  // out[r * pitch + lane] for n rows and the panels that hold lanes [begin, end).
  static void multiply(const TileUse& tiles, const PageShape& shape, const std::byte* page, const Rows& rows, int n,
                       int begin, int end, float* out, std::ptrdiff_t pitch, TileWork& work) {
    const int first = begin / kPackedLanes, last = (end + kPackedLanes - 1) / kPackedLanes;
    for (int r = 0; r < n; ++r)
      for (int p = first; p < last; ++p) store(out + r * pitch + p * kPackedLanes, zero());
    const int step = std::max(shape.group, kernel::kTileDepth / shape.group * shape.group);
    for (int k = 0; k < shape.depth; k += step) {
      const int stop = smaller(k + step, shape.depth);
      const int shared = groups_of(stop - k, shape.group);
      const int at_once = kRows / shared;
      for (int r = 0; r < n; r += at_once)
        add_step(tiles, shape, page, rows, {r, std::min(at_once, n - r)}, {k, stop}, first, last, out, pitch, work);
    }
  }

  struct Range {
    int first, second;
  };
  // Adds what the groups of depth [k, stop) give to `rows.second` rows from rows.first on.
  static void add_step(const TileUse& tiles, const PageShape& shape, const std::byte* page, const Rows& rows,
                       Range some, Range depth, int first, int last, float* out, std::ptrdiff_t pitch, TileWork& work) {
    const auto [row, n] = some;
    const auto [k, stop] = depth;
    const int tile = tile_depth(stop - k);
    const int shared = groups_of(stop - k, shape.group);
    std::memset(work.x, 0, static_cast<std::size_t>(kRows) * static_cast<std::size_t>(tile));
    for (int p = 0; p < shared; ++p) {
      const int from = k + p * shape.group, to = group_end(from, shape.group, shape.depth);
      for (int r = 0; r < n; ++r)
        std::memcpy(work.x + static_cast<std::ptrdiff_t>(p * n + r) * tile + from - k, rows.x[row + r] + from,
                    static_cast<std::size_t>(to - from));
    }
    const auto* const headers = reinterpret_cast<const std::uint16_t*>(page);
    const std::byte* const codes =
        page + column_header_bytes(shape) + static_cast<std::size_t>(k / kPackedUnit * packed_unit_bytes(B));
    each_tile_panel<B>(
        tiles, codes, packed_panel_bytes(B, shape.depth), first, last, stop - k, 0, stop - k, Codes{}, work.x,
        work, [&](int panel, const std::int32_t* sums) __attribute__((always_inline)) {
          for (int p = 0; p < shared; ++p) {
            const int j = k / shape.group + p, lane = panel * kPackedLanes;
            const auto* const group = headers + static_cast<std::ptrdiff_t>(j) * 2 * shape.lanes + lane;
            const F32 s = load_f16(group);
            const F32 middle = middle_of<B>(shape.shift, s, load_f16(group + shape.lanes));
            for (int r = 0; r < n; ++r) {
              float* const at = out + (row + r) * pitch + lane;
              const F32 sum = to_f32(load_i32(sums + (p * n + r) * kPageTokens));
              const F32 before = fma(middle, set1(rows.total[j][row + r]), load(at));
              store(at, fma(s, fma(sum, set1(rows.scale[j][row + r]), set1(rows.shift[j][row + r])), before));
            }
          }
        });
  }
};

#endif

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
