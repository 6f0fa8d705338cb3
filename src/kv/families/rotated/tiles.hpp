// The products of rotated codecs for many rows, by the matrix unit of AMX: codes become bytes once for 32 rows. The
// integers are those of RotatedProducts, and so are the floats that are made of them. For sources compiled per
// instruction set.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernel/tiles.hpp"
#include "kv/families/rotated/codec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

#if defined(KVASIR_MAY_HAVE_TILES)

template <int B>
struct RotatedTiles {
  using Products = RotatedProducts<B>;
  using Levels = LevelMap<B>;
  using Page = RotatedPage<B>;
  static constexpr int kRows = kernel::kTileRows;
  static constexpr int kFewest = kRows / 2;         // with fewer rows most of a tile would be empty
  static constexpr int kBytes = kPageTokens * 128;  // of unpacked panels; half of a first-level cache
  static_assert(kBytes >= Products::kMaxDim * kLanes);

  static const kernel::TileKernels* wanted(int rows) { return rows >= kFewest ? kernel::tiles_in_use() : nullptr; }

  // Rows of tiles in use as long as this lives.
  struct Use {
    explicit Use(const kernel::TileKernels& k) : kernels(k) { kernels.start(); }
    ~Use() { kernels.stop(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    const kernel::TileKernels& kernels;
  };

  // x and what it is multiplied by. Bytes that x has zeros for need to be there, not to mean anything.
  struct Work {
    alignas(64) std::int8_t x[kRows * Products::kMaxDim] = {};
    alignas(64) std::byte panels[kBytes] = {};
    alignas(64) std::int32_t sums[kRows * kPageTokens];
    Int8Row rows[kRows];
  };

  static int padded(int depth) { return (depth + kernel::kTileDepth - 1) / kernel::kTileDepth * kernel::kTileDepth; }

  // The sums of panels [first, last) with values of `depth` rows, of which x wants [begin, end); there may be more
  // panels than fit. done(panel, sums): those of a panel, kPageTokens apart.
  template <class Done>
  KVASIR_INLINE void each_panel(const Use& tiles, const std::byte* codes, int first, int last, int depth, int begin,
                                int end, const Levels& levels, Work& work, Done&& done) {
    const int pitch = padded(depth);
    const int at_once = std::min(kBytes / (pitch * kLanes), kPageTokens / kLanes);
    const std::size_t panel_bytes = packed_panel_bytes(B, depth);
    for (int p = first; p < last; p += at_once) {
      const int n = std::min(at_once, last - p);
      for (int i = 0; i < n; ++i)
        unpack_panel<B>(codes + static_cast<std::size_t>(p + i) * panel_bytes, begin, end, levels.map,
                        work.panels + static_cast<std::ptrdiff_t>(i) * pitch * kLanes);
      tiles.kernels.multiply({work.x, work.panels, n, pitch, work.sums, kPageTokens});
      for (int i = 0; i < n; ++i) done(p + i, work.sums + i * kLanes);
    }
  }

  static void dots(const kernel::TileKernels& kernels, int d, const PageRef* pages, int count, const float* q, int g,
                   float* scores, int stride) {
    const Levels levels = Levels::load();
    const Use tiles(kernels);
    Work work;
    for (int r = 0; r < g; r += kRows) {
      const int n = std::min(kRows, g - r);
      const float* const qs = q + static_cast<std::ptrdiff_t>(r) * d;
      for (int i = 0; i < n; ++i) work.rows[i] = quantize_row(qs + i * d, d, work.x + i * padded(d));
      for (int p = 0; p < count; ++p) {
        const Page page = Page::at(pages[p].block, d);
        float* const to = scores + static_cast<std::ptrdiff_t>(r) * stride + p * kPageTokens;
        Ends ends;
        for_row_blocks(
            n, [&]<int G>(int row) __attribute__((always_inline)) {
              const auto end = Products::template ScoreEnd<G>::of(page, d, levels, qs + row * d, work.rows + row);
              for (int i = 0; i < G; ++i) ends.put(row + i, end.scale[i], end.shift[i], end.base[i]);
            });
        const int first = Products::first_of(pages[p]) / kLanes, last = Products::last_of(pages[p]) / kLanes;
        each_panel(
            tiles, page.codes, first, last, d, 0, d, levels,
            work, [&](int panel, const std::int32_t* sums) __attribute__((always_inline)) {
              const F32 scales = load_f16(page.scales + panel * kLanes);
              for (int i = 0; i < n; ++i)
                store(to + static_cast<std::ptrdiff_t>(i) * stride + panel * kLanes,
                      ends.score(i, scales, to_f32(load_i32(sums + i * kPageTokens))));
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
    const Use tiles(kernels);
    Work work;
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
                                            last, work.x + row * kPageTokens, work.rows + row, mass + row);
        });
        each_panel(
            tiles, page.codes, 0, d / kLanes, kPageTokens, first, last, levels,
            work, [&](int panel, const std::int32_t* sums) __attribute__((always_inline)) {
              const F32 mean = decode_mean(page.means + panel * kLanes);
              for (int i = 0; i < n; ++i) {
                const auto end = Products::SumEnd::of(levels, work.rows[i], mass[i]);
                store(to + static_cast<std::ptrdiff_t>(i) * pitch + panel * kLanes,
                      Products::SumEnd::value(end, to_f32(load_i32(sums + i * kPageTokens)), mean));
              }
            });
      }
    }
  }
};

#endif

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
