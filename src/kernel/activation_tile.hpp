// Where a column's parts lie in prepared activations (kernel/matmul.hpp). For sources compiled per instruction set.
#pragma once

#include "kernel/matmul.hpp"
#include "simd/shapes.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

// The tile that holds `column`, and its number of columns.
static inline std::byte* activation_tile(const Activations& a, std::int64_t column, std::int64_t& columns) {
  const std::int64_t first = column / kTileColumns * kTileColumns;
  columns = a.n - first < kTileColumns ? a.n - first : kTileColumns;
  return a.data + first * activation_bytes(a.kind, a.k);
}

// Columns of a tile of floats lie in strips, each (K, its columns): at most as many columns as a kernel keeps sums of
// in registers.
#if defined(KVASIR_FEW_SHAPES)
inline constexpr int kStripColumns = simd::KVASIR_TARGET::kOneShape ? 1 : 4;
#elif KVASIR_VECTOR_REGISTERS >= 32
inline constexpr int kStripColumns = 8;
#else
inline constexpr int kStripColumns = 6;
#endif
static_assert(kStripColumns >= kGemvColumns);

// As few strips as possible, all of a width or nearly: in a narrow one products wait for each other.
struct Strips {
  std::int64_t count;
  std::int64_t width;
  std::int64_t wider;  // strips, the first ones, that have a column more

  static Strips of(std::int64_t columns) {
    const std::int64_t count = (columns + kStripColumns - 1) / kStripColumns;
    return {count, columns / count, columns % count};
  }
  std::int64_t first(std::int64_t strip) const { return strip * width + (strip < wider ? strip : wider); }
  std::int64_t columns(std::int64_t strip) const { return width + (strip < wider ? 1 : 0); }
  std::int64_t holding(std::int64_t column) const {
    const std::int64_t wide = wider * (width + 1);
    return column < wide ? column / (width + 1) : wider + (column - wide) / width;
  }
};

// kIntSumStart: the bits that stand for a sum of 0 (kernel/int_sums.hpp). sum_start: what a sum starts at where bytes u
// stand for u - 128 and are multiplied unsigned; the 128 * sum(q) that are too many are taken off in advance.
inline constexpr std::int32_t kIntSumStart = KVASIR_HAS_VNNI ? 0x4b400000 : 0;
static inline std::int32_t sum_start(std::int32_t q_sum) { return kIntSumStart - 128 * q_sum; }

struct Int8Tile {
  std::int64_t columns;    // nc
  std::int8_t* q;          // (K/32, nc, 32)
  float* d;                // (K/32, nc)
  float* dsum;             // (K/32, nc)  d * sum of q
  std::int32_t* half_sum;  // (K/32, nc, 2)  without VNNI two int16 each; with it and many columns what they start at
  float* half_dsum;        // (K/32, nc, 2)
  std::int32_t* start;     // (K/32, nc)  with VNNI and many columns
};

static inline Int8Tile int8_tile(const Activations& a, std::int64_t column) {
  Int8Tile t;
  std::byte* p = activation_tile(a, column, t.columns);
  const std::int64_t blocks = a.k / 32 * t.columns;
  t.q = reinterpret_cast<std::int8_t*>(p);
  t.d = reinterpret_cast<float*>(p + 32 * blocks);
  t.dsum = t.d + blocks;
  t.half_sum = reinterpret_cast<std::int32_t*>(t.dsum + blocks);
  t.half_dsum = reinterpret_cast<float*>(t.half_sum + 2 * blocks);
  t.start = reinterpret_cast<std::int32_t*>(t.half_dsum + 2 * blocks);
  return t;
}

}  // namespace kvasir::kernel::KVASIR_TARGET
