#include "kernel/rounded_products.hpp"

#include <algorithm>

#include "simd/bf16_products.hpp"
#include "simd/flush_subnormals.hpp"
#include "simd/shapes.hpp"
#include "simd/vec.hpp"

#if defined(KVASIR_WITH_AMX)
#include <immintrin.h>
#endif

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

constexpr int kUnit = 32;          // elements whose sums begin at 0
constexpr int kUnpacked = 128;     // elements that are dequantised at a time
constexpr int kMostDepth = 512;    // elements whose weights are kept as pairs for all columns: 16 KB a panel
constexpr int kFewDepth = 128;     // with few columns, so that all is in the first-level cache
constexpr int kMostColumns = 512;  // whose sums are kept
constexpr int kTileSide = 16;      // rows of a tile: columns of x, and a panel's rows
constexpr int kPanelsAtOnce = 2;   // of tiles: 32 rows
// Pairs of panels that take a run of elements one after the other: x's run, 512 KB of 512 columns, stays in the
// second-level cache for all of them. Their sums are 256 KB.
constexpr int kMostPairs = 4;
static_assert(kFewDepth % kUnpacked == 0 && kMostDepth % kUnpacked == 0 && kUnpacked % kUnit == 0);

using PairSums = float[kPanelsAtOnce][kPanelRows];  // of a column

struct RoundedWork {
  alignas(64) std::uint32_t w[kPanelsAtOnce][kMostDepth / 2][kPanelRows];  // pairs: the even element in the low half
  alignas(64) float floats[kUnpacked][kPanelRows];
  alignas(64) PairSums sums[kMostPairs][kMostColumns];
};

// x rounded to bf16, to nearest even, in the upper half of its bits; subnormal numbers become 0, NaN stays NaN.
KVASIR_INLINE I32 rounded_bits(F32 x) {
  const I32 bits = f32_to_bits(x);
  const I32 odd = and_(shift_right32<16>(bits), set1_i32(1));
  const I32 up = and_(add(add(bits, set1_i32(0x7fff)), odd), set1_i32(-65536));
  const F32 size = abs(x);
  const F32 kept = zero_if_less(size, set1(0x1p-126f), bits_to_f32(up));
  return f32_to_bits(fma(min(set1(0x1.fffffep127f), size), zero(), kept));
}

// `rows` elements of a panel, an even number, as pairs.
void round_pairs(const float (*floats)[kPanelRows], int rows, std::uint32_t (*pairs)[kPanelRows]) {
  for (int j = 0; j < rows; j += 2) {
    const I32 even = and_(shift_right32<16>(rounded_bits(load(floats[j]))), set1_i32(0xffff));
    const I32 odd = and_(rounded_bits(load(floats[j + 1])), set1_i32(-65536));
    store_i32(reinterpret_cast<std::int32_t*>(pairs[j / 2]), add(even, odd));
  }
}

#if defined(KVASIR_WITH_BF16)
// The same by an instruction.
void convert_pairs(const float (*floats)[kPanelRows], int rows, std::uint32_t (*pairs)[kPanelRows]) {
  for (int j = 0; j < rows; j += 2)
    store_bytes(pairs[j / 2], interleave_rows16(to_bf16(load(floats[j]), load(floats[j + 1]))));
}
#endif

// What the set in use has.
struct Unit {
  bool converts = false;  // VCVTNE2PS2BF16
  bool tiles = false;

  static Unit of([[maybe_unused]] simd::Isa isa) {
    Unit u;
#if defined(KVASIR_WITH_BF16)
    u.converts = simd::converts_to_bf16(isa);
#endif
#if defined(KVASIR_WITH_AMX)
    u.tiles = simd::has_bf16_tiles(isa);
#endif
    return u;
  }
};

// Elements [begin, begin + depth) of a panel as pairs, filled up with zeros to whole units.
void take_pairs([[maybe_unused]] const Unit& unit, const PanelFormat& source, const std::byte* panel, std::int64_t k,
                std::int64_t begin, int depth, float (*floats)[kPanelRows], std::uint32_t (*pairs)[kPanelRows]) {
  for (int i = 0; i < depth; i += kUnpacked, pairs += kUnpacked / 2) {
    const int n = std::min(kUnpacked, depth - i), whole = (n + kUnit - 1) / kUnit * kUnit;
    source.unpack(panel, k, begin + i, begin + i + n, floats[0]);
    for (int j = n; j < whole; ++j) store(floats[j], zero());
#if defined(KVASIR_WITH_BF16)
    if (unit.converts) {
      convert_pairs(floats, whole, pairs);
      continue;
    }
#endif
    round_pairs(floats, whole, pairs);
  }
}

const std::uint16_t* row_of(const Activations& x, std::int64_t column) {
  return reinterpret_cast<const std::uint16_t*>(x.data + column * activation_bytes(ActivationKind::kRounded, x.k));
}

// sums[c][p] += the products of `units` units of P panels with C columns, by multiply-adds.
template <int P, int C>
void multiply_units(const std::uint32_t (*w)[kMostDepth / 2][kPanelRows], int units, const float (*x)[kMostDepth],
                    PairSums* sums) {
  for (int u = 0; u < units; ++u) {
    F32 even[P][C], odd[P][C];
    KVASIR_UNROLL(8)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
    for (int c = 0; c < C; ++c) even[p][c] = odd[p][c] = zero();
    KVASIR_UNROLL(1)
    for (int j = u * kUnit; j < (u + 1) * kUnit; j += 2) {
      F32 we[P], wo[P];
      KVASIR_UNROLL(8)
      for (int p = 0; p < P; ++p) {
        const I32 pair = load_i32(reinterpret_cast<const std::int32_t*>(w[p][j / 2]));
        we[p] = bits_to_f32(shift_left32<16>(pair));
        wo[p] = bits_to_f32(and_(pair, set1_i32(-65536)));
      }
      KVASIR_UNROLL(8)
      for (int c = 0; c < C; ++c) {
        const F32 xe = set1(x[c][j]), xo = set1(x[c][j + 1]);
        KVASIR_UNROLL(8)
        for (int p = 0; p < P; ++p) even[p][c] = fma(we[p], xe, even[p][c]), odd[p][c] = fma(wo[p], xo, odd[p][c]);
      }
    }
    KVASIR_UNROLL(8)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(8)
    for (int p = 0; p < P; ++p) store(sums[c][p], add(load(sums[c][p]), add(even[p][c], odd[p][c])));
  }
}

#if defined(KVASIR_FEW_SHAPES)
constexpr int kRoundedColumns = 1;
#elif KVASIR_VECTOR_REGISTERS >= 32
constexpr int kRoundedColumns = 6;  // with two panels 24 sums are in registers
#else
constexpr int kRoundedColumns = 2;
#endif

// Not inlined: it runs while subnormals are flushed.
template <int P, int C>
__attribute__((noinline)) void multiply_columns(const RoundedWork& work, int units, const Activations& x,
                                                std::int64_t first, std::int64_t columns, std::int64_t begin,
                                                PairSums* sums) {
  alignas(64) float floats[C][kMostDepth];
  for (; columns >= C; columns -= C, first += C, sums += C) {
    for (int c = 0; c < C; ++c)
      for (int i = 0; i < units * kUnit; i += kLanes) store(floats[c] + i, load_bf16(row_of(x, first + c) + begin + i));
    multiply_units<P, C>(work.w, units, floats, sums);
  }
  if constexpr (C > 1)
    if (columns > 0) multiply_columns<P, C - 1>(work, units, x, first, columns, begin, sums);
}

#if defined(KVASIR_WITH_AMX)

// What ldtilecfg reads (kernel/tiles.simd.cpp): eight tiles of 16 rows of 64 bytes.
struct alignas(64) RoundedShapes {
  std::uint8_t palette = 1;
  std::uint8_t first_row = 0;
  std::uint8_t unused[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(RoundedShapes) == 64);

struct RoundedTiles {
  RoundedTiles() {
    const RoundedShapes shapes;
    asm volatile("" ::"r"(&shapes) : "memory");  // g++ 12 drops the stores before the load of a configuration
    _tile_loadconfig(&shapes);
  }
  ~RoundedTiles() { _tile_release(); }
  RoundedTiles(const RoundedTiles&) = delete;
  RoundedTiles& operator=(const RoundedTiles&) = delete;
};

// Tiles 0 to 3 are sums: 16 columns with panel 0 and 1, the next 16 columns likewise. 4 and 5 are of x, 6 and 7 of the
// panels.
template <bool kTwo>
void multiply_by_tiles(const RoundedWork& work, int units, const std::uint16_t* x, std::int64_t pitch, PairSums* sums) {
  constexpr int kSums = kPanelsAtOnce * kPanelRows * 4, kPair = kPanelRows * 4;
  _tile_loadd(0, sums[0][0], kSums);
  _tile_loadd(1, sums[0][1], kSums);
  if constexpr (kTwo) {
    _tile_loadd(2, sums[kTileSide][0], kSums);
    _tile_loadd(3, sums[kTileSide][1], kSums);
  }
  for (int u = 0; u < units; ++u) {
    _tile_loadd(4, x + u * kUnit, pitch);
    _tile_loadd(6, work.w[0][u * kUnit / 2], kPair);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, work.w[1][u * kUnit / 2], kPair);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) {
      _tile_loadd(5, x + kTileSide * pitch / 2 + u * kUnit, pitch);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums[0][0], kSums);
  _tile_stored(1, sums[0][1], kSums);
  if constexpr (kTwo) {
    _tile_stored(2, sums[kTileSide][0], kSums);
    _tile_stored(3, sums[kTileSide][1], kSums);
  }
}

// The columns that fill tiles; how many these are.
std::int64_t multiply_whole_tiles(const RoundedWork& work, int units, const Activations& x, std::int64_t first,
                                  std::int64_t columns, std::int64_t begin, PairSums* sums) {
  const std::int64_t pitch = activation_bytes(ActivationKind::kRounded, x.k);
  const RoundedTiles tiles;
  std::int64_t done = 0;
  for (; done + 2 * kTileSide <= columns; done += 2 * kTileSide)
    multiply_by_tiles<true>(work, units, row_of(x, first + done) + begin, pitch, sums + done);
  for (; done + kTileSide <= columns; done += kTileSide)
    multiply_by_tiles<false>(work, units, row_of(x, first + done) + begin, pitch, sums + done);
  return done;
}

#endif

void store_sums(const MatmulArgs& args, std::int64_t panel, std::int64_t column, F32 sums) {
  const std::int64_t row = panel * kPanelRows;
  float* const out = args.out + column * args.ldo + row;
  if (row + kPanelRows <= args.rows)
    store(out, sums);
  else
    store_n(out, sums, static_cast<int>(args.rows - row));
}

// Elements [begin, begin + depth) of P panels from `panel` on, added to the sums of columns [first, first + columns).
template <int P>
void multiply_run(const MatmulArgs& args, const PanelFormat& source, std::int64_t panel, const Unit& unit,
                  std::int64_t begin, int depth, std::int64_t first, std::int64_t columns, RoundedWork& work,
                  PairSums* sums) {
  const Activations& x = *args.x;
  const std::int64_t panel_bytes = source.panel_bytes(args.k);
  const int units = (depth + kUnit - 1) / kUnit;
  for (int p = 0; p < P; ++p)
    take_pairs(unit, source, args.panels + (panel + p) * panel_bytes, args.k, begin, depth, work.floats, work.w[p]);
  std::int64_t done = 0;
#if defined(KVASIR_WITH_AMX)
  if (unit.tiles && x.n >= kTileSide) {  // what tiles make of the second panel of one is not read
    if constexpr (P == 1) __builtin_memset(work.w[1], 0, sizeof work.w[1]);
    done = multiply_whole_tiles(work, units, x, first, columns, begin, sums);
  }
#endif
  const simd::FlushSubnormals flush;
  multiply_columns<P, kRoundedColumns>(work, units, x, first + done, columns - done, begin, sums + done);
}

// Panels [begin, end), 2 * kMostPairs at most, for all columns.
void multiply_panels(const MatmulArgs& args, const PanelFormat& source, std::int64_t begin, std::int64_t end,
                     const Unit& unit, RoundedWork& work) {
  const Activations& x = *args.x;
  const std::int64_t most_depth = x.n <= kGemvColumns ? kFewDepth : kMostDepth, panels = end - begin;
  for (std::int64_t first = 0; first < x.n; first += kMostColumns) {
    const std::int64_t columns = std::min<std::int64_t>(kMostColumns, x.n - first);
    for (std::int64_t p = 0; p < panels; p += kPanelsAtOnce)
      __builtin_memset(work.sums[p / kPanelsAtOnce], 0, static_cast<std::size_t>(columns) * sizeof(PairSums));
    for (std::int64_t k = 0; k < args.k; k += most_depth) {
      const int depth = static_cast<int>(std::min(most_depth, args.k - k));
      for (std::int64_t p = 0; p < panels; p += kPanelsAtOnce)
        (p + 1 < panels ? multiply_run<kPanelsAtOnce> : multiply_run<1>)(args, source, begin + p, unit, k, depth, first,
                                                                         columns, work, work.sums[p / kPanelsAtOnce]);
    }
    for (std::int64_t p = 0; p < panels; ++p)
      for (std::int64_t c = 0; c < columns; ++c)
        store_sums(args, begin + p, first + c, load(work.sums[p / kPanelsAtOnce][c][p % kPanelsAtOnce]));
  }
}

}  // namespace

void multiply_rounded(const MatmulArgs& args, const PanelFormat& source) {
  const Unit unit = Unit::of(simd::active());
  // With few columns panels are read from one end to the other.
  const std::int64_t most = kPanelsAtOnce * (args.x->n > kGemvColumns ? kMostPairs : 1);
  RoundedWork work;
  for (std::int64_t p = args.panel_begin; p < args.panel_end; p += most)
    multiply_panels(args, source, p, std::min(p + most, args.panel_end), unit, work);
}

}  // namespace kvasir::kernel::KVASIR_TARGET
