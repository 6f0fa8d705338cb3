// The products of rotated codecs for many rows, by the matrix unit of AMX: codes become bytes once for 32 rows. The
// integers are those of RotatedProducts, and so are the floats that are made of them. For sources compiled per
// instruction set.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernel/tiles.hpp"
#include "kv/codec.hpp"
#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/layout.hpp"
#include "kv/families/rotated/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

#if defined(KVASIR_MAY_HAVE_TILES)

inline constexpr int kFewestTileRows = kernel::kTileRows / 2;  // with fewer rows most of a tile would be empty
inline constexpr int kMostTileDepth = 1024;
inline constexpr int kTilePanelBytes = kPageTokens * 128;  // of unpacked panels; half of a first-level cache
static_assert(kTilePanelBytes >= kMostTileDepth * kPackedLanes);

// Null where tiles are not in use, or do not pay for so few rows.
KVASIR_INLINE const kernel::TileKernels* tiles_for(int rows) {
  return rows >= kFewestTileRows ? kernel::tiles_in_use() : nullptr;
}

// Tiles in use as long as this lives.
struct TileUse {
  explicit TileUse(const kernel::TileKernels& k) : kernels(k) { kernels.start(); }
  ~TileUse() { kernels.stop(); }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;
  const kernel::TileKernels& kernels;
};

// x and what it is multiplied by. Of x only rows that are wanted mean something, of panels only what x has no zeros
// for.
struct TileWork {
  alignas(64) std::int8_t x[kernel::kTileRows * kMostTileDepth];
  alignas(64) std::byte panels[kTilePanelBytes];
  alignas(64) std::int32_t sums[kernel::kTileRows * kPageTokens];
};

inline int tile_depth(int depth) { return (depth + kernel::kTileDepth - 1) / kernel::kTileDepth * kernel::kTileDepth; }

template <int B>
struct RotatedTiles {
  using Products = RotatedProducts<B>;
  using Levels = LevelMap<B>;
  using Page = RotatedPage<B>;
  static constexpr int kRows = kernel::kTileRows;
  static_assert(Products::kMaxDim <= kMostTileDepth);

  static const kernel::TileKernels* wanted(int rows) { return tiles_for(rows); }

  // Zeros behind rows of d that do not fill tiles.
  static void clear_ends(TileWork& work, int d) {
    if (const int depth = tile_depth(d); depth > d)
      for (int r = 0; r < kRows; ++r) std::memset(work.x + r * depth + d, 0, static_cast<std::size_t>(depth - d));
  }

  // Panels [first, last) of `depth` rows, of which work.x, (kTileRows, tile_depth(depth)), wants [begin, end); there
  // may be more than fit. done(panel, n, sums): those of n panels from there on, side by side in rows that are
  // kPageTokens apart.
  template <class Done>
  KVASIR_INLINE void each_panel(const TileUse& tiles, const std::byte* codes, int first, int last, int depth, int begin,
                                int end, const Levels& levels, TileWork& work, Done&& done) {
    const std::size_t panel_bytes = packed_panel_bytes(B, depth);
    const int pitch = tile_depth(depth);
    const int at_once = std::min(kTilePanelBytes / (pitch * kPackedLanes), kPageTokens / kPackedLanes);
    for (int p = first; p < last; p += at_once) {
      const int n = std::min(at_once, last - p);
      for (int i = 0; i < n; ++i)
        unpack_panel<B>(codes + static_cast<std::size_t>(p + i) * panel_bytes, begin, end, levels.map,
                        work.panels + static_cast<std::ptrdiff_t>(i) * pitch * kPackedLanes);
      tiles.kernels.multiply({work.x, work.panels, n, pitch, work.sums, kPageTokens});
      done(p, n, work.sums);
    }
  }

  static void dots(const kernel::TileKernels& kernels, int d, const PageRef* pages, int count, const float* q, int g,
                   float* scores, int stride) {
    const Levels levels = Levels::load();
    const TileUse tiles(kernels);
    TileWork work;
    clear_ends(work, d);
    Int8Row rows[kRows];
    for (int r = 0; r < g; r += kRows) {
      const int n = std::min(kRows, g - r);
      const float* const qs = q + static_cast<std::ptrdiff_t>(r) * d;
      for (int i = 0; i < n; ++i) rows[i] = quantize_row(qs + i * d, d, work.x + i * tile_depth(d));
      for (int p = 0; p < count; ++p) {
        const Page page = Page::at(pages[p].block, d);
        float* const to = scores + static_cast<std::ptrdiff_t>(r) * stride + p * kPageTokens;
        Ends ends;
        for_row_blocks(
            n, [&]<int G>(int row) __attribute__((always_inline)) {
              const auto end = Products::template ScoreEnd<G>::of(page, d, levels, qs + row * d, rows + row);
              for (int i = 0; i < G; ++i) ends.put(row + i, end.scale[i], end.shift[i], end.base[i]);
            });
        const int first = Products::first_of(pages[p]) / kLanes, last = Products::last_of(pages[p]) / kLanes;
        each_panel(
            tiles, page.codes, first, last, d, 0, d, levels,
            work, [&](int panel, int panels, const std::int32_t* sums) __attribute__((always_inline)) {
              alignas(64) float scales[kPageTokens];
              for (int j = 0; j < panels; ++j) store(scales + j * kLanes, load_f16(page.scales + (panel + j) * kLanes));
              for (int i = 0; i < n; ++i)
                for (int j = 0; j < panels; ++j)
                  store(
                      to + static_cast<std::ptrdiff_t>(i) * stride + (panel + j) * kLanes,
                      ends.score(i, load(scales + j * kLanes), to_f32(load_i32(sums + i * kPageTokens + j * kLanes))));
            });
      }
    }
  }

  // ScoreEnd of many rows.
  struct Ends {
    float scale[kRows], shift[kRows], base[kRows];
    void put(int i, float row_scale, float row_shift, float row_base) {
      scale[i] = row_scale;
      shift[i] = row_shift;
      base[i] = row_base;
    }
    inline __attribute__((always_inline)) F32 score(int i, F32 scales, F32 sum) const {
      return fma(scales, fma(sum, set1(scale[i]), set1(shift[i])), set1(base[i]));
    }
  };

  static void accumulate(const kernel::TileKernels& kernels, int d, const PageRef* pages, int count,
                         const float* weights, int stride, int g, float* out, int pitch) {
    const Levels levels = Levels::load();
    const TileUse tiles(kernels);
    TileWork work;
    Int8Row rows[kRows];
    float mass[kRows];
    for (int p = 0; p < count; ++p) {
      const Page page = Page::at(pages[p].block, d);
      const int first = Products::first_of(pages[p]), last = Products::last_of(pages[p]);
      for (int r = 0; r < g; r += kRows) {
        const int n = std::min(kRows, g - r);
        const float* const w = weights + static_cast<std::ptrdiff_t>(r) * stride + p * kPageTokens;
        float* const to = out + (static_cast<std::ptrdiff_t>(p) * g + r) * pitch;
        for_row_blocks(n, [&]<int G>(int row) {
          quantize_products<G, kPageTokens>(w + static_cast<std::ptrdiff_t>(row) * stride, stride, page.scales, first,
                                            last, work.x + row * kPageTokens, rows + row, mass + row);
        });
        each_panel(
            tiles, page.codes, 0, d / kLanes, kPageTokens, first, last, levels,
            work, [&](int panel, int panels, const std::int32_t* sums) __attribute__((always_inline)) {
              alignas(64) float means[kPageTokens];
              for (int j = 0; j < panels; ++j)
                store(means + j * kLanes, decode_mean(page.means + (panel + j) * kLanes));
              for (int i = 0; i < n; ++i) {
                const auto end = Products::SumEnd::of(levels, rows[i], mass[i]);
                for (int j = 0; j < panels; ++j)
                  store(to + static_cast<std::ptrdiff_t>(i) * pitch + (panel + j) * kLanes,
                        Products::SumEnd::value(end, to_f32(load_i32(sums + i * kPageTokens + j * kLanes)),
                                                load(means + j * kLanes)));
              }
            });
      }
    }
  }
};

#endif

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
