// Products of packed matrices with many rows, by the matrix unit of AMX: codes become bytes once for 32 rows. The sums
// are those of panel_dots (kv/families/packed/codes.hpp). For sources compiled per instruction set.
#pragma once

#include <algorithm>

#include "kernel/tiles.hpp"
#include "kv/codec.hpp"
#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/layout.hpp"

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

// Panels [first, last), panel_bytes apart, of `depth` rows, of which x wants [begin, end); there may be more than fit.
// x: (kTileRows, tile_depth(depth)). done(panel, n, sums): those of n panels from there on, which stand side by side in
// rows that are kPageTokens apart.
template <int B, class Map, class Done>
KVASIR_INLINE void each_tile_panel(const TileUse& tiles, const std::byte* codes, std::size_t panel_bytes, int first,
                                   int last, int depth, int begin, int end, const Map& map, const std::int8_t* x,
                                   TileWork& work, Done&& done) {
  const int pitch = tile_depth(depth);
  const int at_once = std::min(kTilePanelBytes / (pitch * kPackedLanes), kPageTokens / kPackedLanes);
  for (int p = first; p < last; p += at_once) {
    const int n = std::min(at_once, last - p);
    for (int i = 0; i < n; ++i)
      unpack_panel<B>(codes + static_cast<std::size_t>(p + i) * panel_bytes, begin, end, map,
                      work.panels + static_cast<std::ptrdiff_t>(i) * pitch * kPackedLanes);
    tiles.kernels.multiply({x, work.panels, n, pitch, work.sums, kPageTokens});
    done(p, n, work.sums);
  }
}

#endif

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
