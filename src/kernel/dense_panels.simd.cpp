// Panels of f32, f16 and bf16 weights, (K, 16 rows) each; all compute in float32.
//
// Why not the bf16 dot product: on the Xeon this was written on (Emerald Rapids) vdpbf16ps reaches a quarter of the
// rate of vpdpbusd, i.e. half of the multiply-adds per second that float32 FMA does, and it would round the activations
// to 8 bits of mantissa. In float32 every instruction set gives the same bits, and F16 and BF16 weights keep all of
// theirs.
#include "kernel/activation_tile.hpp"
#include "kernel/interleave.hpp"
#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

struct F32Weights {
  using Element = float;
  KVASIR_INLINE F32 row16(const float* p) { return load(p); }
  KVASIR_INLINE float value(float x) { return x; }
};
struct F16Weights {
  using Element = std::uint16_t;
  KVASIR_INLINE F32 row16(const std::uint16_t* p) { return load_f16(p); }
  KVASIR_INLINE float value(std::uint16_t x) { return simd::f16_to_f32(x); }
};
struct Bf16Weights {
  using Element = std::uint16_t;
  KVASIR_INLINE F32 row16(const std::uint16_t* p) { return load_bf16(p); }
  KVASIR_INLINE float value(std::uint16_t x) { return simd::bf16_to_f32(x); }
};

KVASIR_INLINE void store_rows(const MatmulArgs& args, std::int64_t panel, std::int64_t column, F32 acc) {
  const std::int64_t row = panel * kPanelRows;
  float* out = args.out + column * args.ldo + row;
  if (row + kPanelRows <= args.rows) {
    store(out, acc);
  } else {
    store_n(out, acc, static_cast<int>(args.rows - row));
  }
}

// Few columns: P panels are streamed past the C columns of the strip that begins at `first`; P * C independent chains
// hide the latency of the FMA. While a run of kFetchRun steps is multiplied the next one is fetched, at the end of the
// panels the first one of those that follow.
constexpr int kFetchRun = 64;

template <class W, int P, int C>
void gemv(const MatmulArgs& args, std::int64_t first, std::int64_t panel, bool more) {
  const auto* w = reinterpret_cast<const typename W::Element*>(args.panels) + panel * args.k * kPanelRows;
  const auto* x = reinterpret_cast<const float*>(args.x->data) + first * args.k;
  const std::int64_t stride = args.k * kPanelRows;
  F32 acc[P][C];
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) acc[p][c] = zero();
  const auto* const next_panels = more ? w + P * stride : w;
  for (std::int64_t begin = 0; begin < args.k; begin += kFetchRun) {
    const auto n = static_cast<int>(args.k - begin < kFetchRun ? args.k - begin : kFetchRun);
    const auto* next = begin + n < args.k ? w + n * kPanelRows : next_panels;
    KVASIR_UNROLL(1)
    for (int i = 0; i < n; ++i, w += kPanelRows, next += kPanelRows, x += C) {
      KVASIR_UNROLL(8)
      for (int p = 0; p < P; ++p) {
        __builtin_prefetch(next + p * stride, 0, 3);
        const F32 wp = W::row16(w + p * stride);
        KVASIR_UNROLL(8)
        for (int c = 0; c < C; ++c) acc[p][c] = fma(wp, set1(x[c]), acc[p][c]);
      }
    }
  }
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) store_rows(args, panel + p, first + c, acc[p][c]);
}

template <class W, int C>
void gemv_panels(const MatmulArgs& args) {
  constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 || C == 1 ? 4 : C == 2 ? 2 : 1;
  std::int64_t p = args.panel_begin;
  for (; p + kPanels <= args.panel_end; p += kPanels)
    gemv<W, kPanels, C>(args, 0, p, p + 2 * kPanels <= args.panel_end);
  for (; p < args.panel_end; ++p) gemv<W, 1, C>(args, 0, p, p + 1 < args.panel_end);
}

// f.template operator()<C>() for `columns`, at most kMost.
template <int kMost, class F>
KVASIR_INLINE void with_columns(std::int64_t columns, F&& f) {
  if (columns == kMost) return f.template operator()<kMost>();
  if constexpr (kMost > 1) with_columns<kMost - 1>(columns, static_cast<F&&>(f));
}

// A strip or two of columns: reading a panel again from the cache for the second takes less than writing its floats for
// both.
constexpr std::int64_t kFewStrips = 2;

template <class W>
void gemv_strips(const MatmulArgs& args) {
  const Strips strips = Strips::of(args.x->n);
  for (std::int64_t p = args.panel_begin; p < args.panel_end; ++p)
    for (std::int64_t s = 0; s < strips.count; ++s)
      with_columns<kStripColumns>(strips.columns(s), [&]<int C>() {
        gemv<W, 1, C>(args, strips.first(s), p, s + 1 == strips.count && p + 1 < args.panel_end);
      });
}

// Many columns: P panels x a strip of columns of accumulators are in registers for kDepth steps of K, with the panels'
// weights widened to floats in the L1 cache, where a strip's activations are, too. Between chunks of K the sums of a
// whole tile of columns rest in memory, those of kGroupPanels panels, for all of which the tile's activations are read
// from the L2 cache.
constexpr int kDepth = 256;
constexpr int kGroupPanels = 6;
constexpr int kTilePanels = KVASIR_VECTOR_REGISTERS >= 32 ? 3 : 1;

template <int P, int C>
void multiply(const float (*w)[kPanelRows], int depth, const float* x, float (*sums)[P][kPanelRows]) {
  F32 acc[P][C];
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) acc[p][c] = load(sums[c][p]);
  KVASIR_UNROLL(1)
  for (int k = 0; k < depth; ++k, x += C) {
    F32 wk[P];
    KVASIR_UNROLL(8)
    for (int p = 0; p < P; ++p) wk[p] = load(w[P * k + p]);
    KVASIR_UNROLL(8)
    for (int c = 0; c < C; ++c) {
      const F32 xc = set1(x[c]);
      KVASIR_UNROLL(8)
      for (int p = 0; p < P; ++p) acc[p][c] = fma(wk[p], xc, acc[p][c]);
    }
  }
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) store(sums[c][p], acc[p][c]);
}

// `depth` steps of K from `begin` on for P panels and all columns of a tile.
template <class W, int P>
void chunk(const typename W::Element* panels, std::int64_t k, std::int64_t begin, int depth, const float* x,
           std::int64_t columns, float (*sums)[P][kPanelRows]) {
  alignas(64) float w[kDepth * P][kPanelRows];
  for (int p = 0; p < P; ++p)
    for (int j = 0; j < depth; ++j) store(w[P * j + p], W::row16(panels + (p * k + begin + j) * kPanelRows));
  const Strips strips = Strips::of(columns);
  for (std::int64_t s = 0; s < strips.count; ++s) {
    const std::int64_t first = strips.first(s);
    with_columns<kStripColumns>(strips.columns(s),
                                [&]<int C>() { multiply<P, C>(w, depth, x + first * k + begin * C, sums + first); });
  }
}

// `count` times P panels.
template <class W, int P>
void gemm(const MatmulArgs& args, std::int64_t panel, std::int64_t count) {
  alignas(64) float sums[kGroupPanels / P][kTileColumns][P][kPanelRows];
  const std::int64_t stride = args.k * kPanelRows;
  const auto* panels = reinterpret_cast<const typename W::Element*>(args.panels) + panel * stride;
  for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
    std::int64_t columns;
    const auto* x = reinterpret_cast<const float*>(activation_tile(*args.x, first, columns));
    __builtin_memset(sums, 0, sizeof sums);
    for (std::int64_t k = 0; k < args.k; k += kDepth) {
      const int depth = static_cast<int>(args.k - k < kDepth ? args.k - k : kDepth);
      for (std::int64_t i = 0; i < count; ++i)
        chunk<W, P>(panels + i * P * stride, args.k, k, depth, x, columns, sums[i]);
    }
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t c = 0; c < columns; ++c)
        for (int p = 0; p < P; ++p) store_rows(args, panel + i * P + p, first + c, load(sums[i][c][p]));
  }
}

template <class W>
void matmul(const MatmulArgs& args) {
  if (args.x->n <= kGemvColumns)
    return with_columns<kGemvColumns>(args.x->n, [&]<int C>() { gemv_panels<W, C>(args); });
  if (args.x->n <= kFewStrips * kStripColumns) return gemv_strips<W>(args);
  std::int64_t p = args.panel_begin;
  for (; p < args.panel_end; p += kGroupPanels) {
    const std::int64_t n = args.panel_end - p < kGroupPanels ? args.panel_end - p : kGroupPanels;
    const std::int64_t whole = n / kTilePanels;
    if (whole > 0) gemm<W, kTilePanels>(args, p, whole);
    if (n % kTilePanels > 0) gemm<W, 1>(args, p + whole * kTilePanels, n % kTilePanels);
  }
}

template <class W>
std::int64_t panel_bytes(std::int64_t k) {
  return k * kPanelRows * static_cast<std::int64_t>(sizeof(typename W::Element));
}

template <class W>
void pack(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel) {
  using Element = typename W::Element;
  if constexpr (sizeof(Element) == 4) return interleave_words(rows, k, reinterpret_cast<std::uint32_t*>(panel));
  constexpr int kRun = 32;  // elements of a row at a time: source and destination lines stay in the L1 cache
  auto* out = reinterpret_cast<Element*>(panel);
  for (std::int64_t i = 0; i < k; i += kRun) {
    const int n = static_cast<int>(k - i < kRun ? k - i : kRun);
    for (int r = 0; r < kPanelRows; ++r) {
      Element run[kRun] = {};
      if (rows[r])
        __builtin_memcpy(run, rows[r] + i * static_cast<std::int64_t>(sizeof(Element)),
                         static_cast<std::size_t>(n) * sizeof(Element));
      for (int j = 0; j < n; ++j) out[(i + j) * kPanelRows + r] = run[j];
    }
  }
}

template <class W>
void unpack_row(const std::byte* panel, int row, std::int64_t k, float* out) {
  const auto* p = reinterpret_cast<const typename W::Element*>(panel);
  for (std::int64_t i = 0; i < k; ++i) out[i] = W::value(p[i * kPanelRows + row]);
}

template <class W>
constexpr PanelFormat format() {
  return {ActivationKind::kF32, 1, panel_bytes<W>, pack<W>, unpack_row<W>, matmul<W>};
}

}  // namespace

extern const DensePanels dense_panels_table;
const DensePanels dense_panels_table = {format<F32Weights>(), format<F16Weights>(), format<Bf16Weights>()};

}  // namespace kvasir::kernel::KVASIR_TARGET
