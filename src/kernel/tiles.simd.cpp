#include "kernel/tiles.hpp"

#if defined(KVASIR_WITH_AMX)
#include <immintrin.h>
#endif

namespace kvasir::kernel::KVASIR_TARGET {

#if defined(KVASIR_WITH_AMX)

namespace {

// What ldtilecfg reads: Intel's manual, volume 1, "tile configuration". All eight tiles are whole: 16 rows of 64 bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t first_row = 0;
  std::uint8_t unused[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

void start_tiles() {
  const TileShapes shapes;
  asm volatile("" ::"r"(&shapes) : "memory");  // g++ 12 drops the stores before the load of a configuration
  _tile_loadconfig(&shapes);
}

void stop_tiles() { _tile_release(); }

// Tiles 0 and 1 are sums of 16 rows each, 2 is of the panel, 4 to 7 are of x.
constexpr int kTileHalf = kTileRows / 2;

// Up to 128 deep, x stays in its tiles for all panels.
template <int kDepth>
void multiply_kept(const TileProduct& p) {
  static_assert(kDepth == kTileDepth || kDepth == 2 * kTileDepth);
  _tile_loadd(4, p.x, kDepth);
  _tile_loadd(5, p.x + kTileHalf * kDepth, kDepth);
  if constexpr (kDepth > kTileDepth) {
    _tile_loadd(6, p.x + kTileDepth, kDepth);
    _tile_loadd(7, p.x + kTileHalf * kDepth + kTileDepth, kDepth);
  }
  const std::byte* panel = p.panels;
  for (int i = 0; i < p.panels_count; ++i, panel += kDepth * kTileLanes) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, panel, 64);
    _tile_dpbssd(0, 4, 2);
    _tile_dpbssd(1, 5, 2);
    if constexpr (kDepth > kTileDepth) {
      _tile_loadd(3, panel + kTileDepth * kTileLanes, 64);
      _tile_dpbssd(0, 6, 3);
      _tile_dpbssd(1, 7, 3);
    }
    std::int32_t* const sums = p.sums + i * kTileLanes;
    _tile_stored(0, sums, p.pitch * 4);
    _tile_stored(1, sums + kTileHalf * p.pitch, p.pitch * 4);
  }
}

void multiply_deep(const TileProduct& p) {
  const std::byte* panel = p.panels;
  for (int i = 0; i < p.panels_count; ++i) {
    _tile_zero(0);
    _tile_zero(1);
    for (int k = 0; k < p.depth; k += kTileDepth, panel += kTileDepth * kTileLanes) {
      _tile_loadd(2, panel, 64);
      _tile_loadd(4, p.x + k, p.depth);
      _tile_loadd(5, p.x + static_cast<std::ptrdiff_t>(kTileHalf) * p.depth + k, p.depth);
      _tile_dpbssd(0, 4, 2);
      _tile_dpbssd(1, 5, 2);
    }
    std::int32_t* const sums = p.sums + i * kTileLanes;
    _tile_stored(0, sums, p.pitch * 4);
    _tile_stored(1, sums + kTileHalf * p.pitch, p.pitch * 4);
  }
}

void multiply_tiles(const TileProduct& p) {
  if (p.depth == kTileDepth) return multiply_kept<kTileDepth>(p);
  if (p.depth == 2 * kTileDepth) return multiply_kept<2 * kTileDepth>(p);
  multiply_deep(p);
}

// Four sums of 16 x 16, each of all that it is given `rounds` times kPeakSteps times.
constexpr int kPeakSteps = 8;
template <class Step>
void sum_tiles(std::int64_t rounds, const void* ones, Step step, void* sums) {
  start_tiles();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, ones, 64);
  _tile_loadd(5, ones, 64);
  _tile_loadd(6, ones, 64);
  _tile_loadd(7, ones, 64);
  for (std::int64_t i = 0; i < rounds * kPeakSteps; ++i) step();
  _tile_stored(0, sums, 64);
  stop_tiles();
}
constexpr std::int64_t peak_operations(std::int64_t rounds, int depth) {
  return rounds * kPeakSteps * 4 * kTileHalf * kTileLanes * depth * 2;
}

std::int64_t int8_peak(std::int64_t rounds, float* sink) {
  alignas(64) std::int8_t ones[16 * 64];
  alignas(64) std::int32_t sums[16 * 16];
  for (std::int8_t& one : ones) one = 1;
  sum_tiles(
      rounds, ones,
      [] {
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 5, 6);
        _tile_dpbssd(2, 4, 7);
        _tile_dpbssd(3, 5, 7);
      },
      sums);
  *sink = static_cast<float>(sums[0]);
  return peak_operations(rounds, 64);
}

std::int64_t bf16_peak(std::int64_t rounds, float* sink) {
  alignas(64) std::uint16_t ones[16 * 32];
  alignas(64) float sums[16 * 16];
  for (std::uint16_t& one : ones) one = 0x3f80;
  sum_tiles(
      rounds, ones,
      [] {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
      },
      sums);
  *sink = sums[0];
  return peak_operations(rounds, 32);
}

}  // namespace

extern const TileKernels tiles_table;
const TileKernels tiles_table = {start_tiles, multiply_tiles, stop_tiles, int8_peak, bf16_peak};

#else

extern const TileKernels tiles_table;
const TileKernels tiles_table = {nullptr, nullptr, nullptr, nullptr, nullptr};

#endif

}  // namespace kvasir::kernel::KVASIR_TARGET
