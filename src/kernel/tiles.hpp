// Products of 8-bit integers by the matrix unit of AMX. Sums are exact, so that they are those of every other kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kernel {

inline constexpr int kTileRows = 32;   // rows of x in a product
inline constexpr int kTileDepth = 64;  // what x and panels are filled up to
inline constexpr int kTileLanes = 16;  // of a panel

// sums[r * pitch + 16 * p + lane] = sum over k < depth of x[r * depth + k] * panel p[k][lane]
// A panel has byte 4 * lane + k % 4 of its row k / 4, 64 bytes a row: units of 8 bits of kv/families/packed/layout.hpp.
struct TileProduct {
  const std::int8_t* x;     // (kTileRows, depth)
  const std::byte* panels;  // (panels, depth / 4, 64), signed
  int panels_count;
  int depth;  // a multiple of kTileDepth; what x is 0 for may hold anything in a panel
  std::int32_t* sums;
  std::ptrdiff_t pitch;
};

// Null in copies that are compiled without tiles. Tiles belong to a thread between start() and stop(): outside,
// switches between threads need not save them.
struct TileKernels {
  void (*start)();
  void (*multiply)(const TileProduct& product);
  void (*stop)();
  // As the loops of kernel/peak.hpp: products of tiles that are in registers, of bytes and of bf16 pairs.
  std::int64_t (*int8_peak)(std::int64_t rounds, float* sink);
  std::int64_t (*bf16_peak)(std::int64_t rounds, float* sink);
};

KVASIR_DECLARE_KERNELS(TileKernels, tiles)

// Those of the set in use, or null where it has no tiles.
inline const TileKernels* tiles_in_use() { return simd::has_tiles(simd::active()) ? &tiles() : nullptr; }

}  // namespace kvasir::kernel
