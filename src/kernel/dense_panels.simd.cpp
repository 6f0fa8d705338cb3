// Panels of f32, f16 and bf16 weights, (K, 16 rows) each. All have kernels that compute in float32; f16 and bf16 also
// have kernels around the dot product of pairs of bf16, for processors on which it does twice the multiply-adds of
// float32 (simd::preferred says on which).
#include "kernel/activation_tile.hpp"
#include "kernel/interleave.hpp"
#include "kernel/matmul.hpp"
#include "kernel/rounded_products.hpp"
#include "kernel/streaming.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// How a format is multiplied, step by step of K: kRows rows of a panel and as many elements of every column at a time.
//   Element   of the panel              Operand   16 lanes of weights, as `multiply` wants them
//   value     an element as a float     step      the operand of one step
//   Column    one step of a column      multiply  acc + the operand's products with a column's step in every lane
struct InFloat {
  using Column = float;
  using Operand = F32;
  static constexpr int kRows = 1;
  static constexpr ActivationKind kActivation = ActivationKind::kF32;
  KVASIR_INLINE void keep(float* to, F32 w) { store(to, w); }
  KVASIR_INLINE F32 kept(const float* from) { return load(from); }
  KVASIR_INLINE F32 multiply(F32 w, float x, F32 acc) { return fma(w, set1(x), acc); }
};
struct F32Weights : InFloat {
  using Element = float;
  KVASIR_INLINE F32 step(const float* p) { return load(p); }
  KVASIR_INLINE float value(float x) { return x; }
};
struct F16Weights : InFloat {
  using Element = std::uint16_t;
  KVASIR_INLINE F32 step(const std::uint16_t* p) { return load_f16(p); }
  KVASIR_INLINE float value(std::uint16_t x) { return simd::f16_to_f32(x); }
};
struct Bf16Weights : InFloat {
  using Element = std::uint16_t;
  KVASIR_INLINE F32 step(const std::uint16_t* p) { return load_bf16(p); }
  KVASIR_INLINE float value(std::uint16_t x) { return simd::bf16_to_f32(x); }
};

#if KVASIR_HAS_BF16
// Two elements of K at a time; a panel of odd K ends with a row of zeros.
struct InPairs {
  using Column = std::uint32_t;  // two bf16
  using Operand = Bytes;
  static constexpr int kRows = 2;
  static constexpr ActivationKind kActivation = ActivationKind::kBf16;
  KVASIR_INLINE void keep(float* to, Bytes w) { store_bytes(to, w); }
  KVASIR_INLINE Bytes kept(const float* from) { return load_bytes(from); }
  KVASIR_INLINE F32 multiply(Bytes w, const std::uint32_t& x, F32 acc) { return dot_bf16(acc, w, broadcast4(&x)); }
};
struct F16Pairs : InPairs {  // weights are rounded to 8 bits of mantissa, as the activations are
  using Element = std::uint16_t;
  KVASIR_INLINE Bytes step(const std::uint16_t* p) { return interleave_rows16(to_bf16(load_f16(p), load_f16(p + 16))); }
  KVASIR_INLINE float value(std::uint16_t x) { return simd::f16_to_f32(x); }
};
struct Bf16Pairs : InPairs {
  using Element = std::uint16_t;
  KVASIR_INLINE Bytes step(const std::uint16_t* p) { return interleave_rows16(load_bytes(p)); }
  KVASIR_INLINE float value(std::uint16_t x) { return simd::bf16_to_f32(x); }
};
#endif

// Steps and elements of a panel with K columns.
template <class W>
constexpr std::int64_t steps_of(std::int64_t k) {
  return (k + W::kRows - 1) / W::kRows;
}
template <class W>
inline constexpr std::int64_t kStepElements = W::kRows* kPanelRows;

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

template <class W, int P, int C, bool kFetch>
void gemv(const MatmulArgs& args, std::int64_t first, std::int64_t panel, bool more) {
  constexpr std::int64_t kStep = kStepElements<W>;
  const std::int64_t steps = steps_of<W>(args.k), stride = steps * kStep;
  const auto* w = reinterpret_cast<const typename W::Element*>(args.panels) + panel * stride;
  const auto* x = reinterpret_cast<const typename W::Column*>(args.x->data) + first * steps;
  F32 acc[P][C];
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) acc[p][c] = zero();
  const auto* const next_panels = more ? w + P * stride : w;
  for (std::int64_t begin = 0; begin < steps; begin += kFetchRun) {
    const auto n = static_cast<int>(steps - begin < kFetchRun ? steps - begin : kFetchRun);
    const auto* next = begin + n < steps ? w + n * kStep : next_panels;
    KVASIR_UNROLL(1)
    for (int i = 0; i < n; ++i, w += kStep, next += kStep, x += C) {
      KVASIR_UNROLL(8)
      for (int p = 0; p < P; ++p) {
        if constexpr (kFetch) __builtin_prefetch(next + p * stride, 0, 3);
        const auto wp = W::step(w + p * stride);
        KVASIR_UNROLL(8)
        for (int c = 0; c < C; ++c) acc[p][c] = W::multiply(wp, x[c], acc[p][c]);
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
  if constexpr (kFewShapes) {
    if constexpr (!kOneShape)
      for (; p + kPanels <= args.panel_end; p += kPanels)
        gemv<W, kPanels, C, true>(args, 0, p, p + 2 * kPanels <= args.panel_end);
    for (; p < args.panel_end; ++p) gemv<W, 1, C, true>(args, 0, p, p + 1 < args.panel_end);
  } else {
    switch (streaming()) {
      case Streaming::kInterleaved:
        for (; p + kPanels <= args.panel_end; p += kPanels)
          gemv<W, kPanels, C, true>(args, 0, p, p + 2 * kPanels <= args.panel_end);
        for (; p < args.panel_end; ++p) gemv<W, 1, C, true>(args, 0, p, p + 1 < args.panel_end);
        break;
      case Streaming::kAhead:
        // From the cache a panel alone is no faster than memory can be (42 GB/s on a core of a Zen 5, two of them 82):
        // its sums wait for one another.
        for (; p + 2 <= args.panel_end; p += 2) gemv<W, 2, C, true>(args, 0, p, p + 4 <= args.panel_end);
        for (; p < args.panel_end; ++p) gemv<W, 1, C, true>(args, 0, p, p + 1 < args.panel_end);
        break;
      case Streaming::kPlain:
        for (; p < args.panel_end; ++p) gemv<W, 1, C, false>(args, 0, p, false);
        break;
    }
  }
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
        gemv<W, 1, C, true>(args, strips.first(s), p, s + 1 == strips.count && p + 1 < args.panel_end);
      });
}

// Many columns: P panels x a strip of columns of accumulators are in registers for kDepth steps of K, with the panels'
// weights as operands (24 KB, and as much of what they are made of next; 64 to 192 steps are alike on a Zen 5) and a
// strip's activations near. Between chunks the sums of up to kGemmColumns columns rest in the second-level cache, those
// of kGroupPanels panels, for all of which the columns' activations are read from there. Operands are made once for all
// of these columns: from F16 that takes as long as multiplying eight of them.
constexpr int kDepth = 128;
constexpr int kGroupPanels = 6;
constexpr int kTilePanels = KVASIR_VECTOR_REGISTERS < 32 || kOneShape ? 1 : kFewShapes ? 2 : 3;
constexpr std::int64_t kGemmColumns = std::int64_t{4} * kTileColumns;

template <class W, int P, int C>
void multiply(const float (*w)[kPanelRows], int depth, const typename W::Column* x, float (*sums)[P][kPanelRows]) {
  F32 acc[P][C];
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) acc[p][c] = load(sums[c][p]);
  KVASIR_UNROLL(1)
  for (int k = 0; k < depth; ++k, x += C) {
    typename W::Operand wk[P];
    KVASIR_UNROLL(8)
    for (int p = 0; p < P; ++p) wk[p] = W::kept(w[P * k + p]);
    KVASIR_UNROLL(8)
    for (int c = 0; c < C; ++c) {
      KVASIR_UNROLL(8)
      for (int p = 0; p < P; ++p) acc[p][c] = W::multiply(wk[p], x[c], acc[p][c]);
    }
  }
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) store(sums[c][p], acc[p][c]);
}

// The operands of P panels for `depth` steps; a panel has `steps`.
template <class W, int P>
KVASIR_INLINE void keep_operands(const typename W::Element* panels, std::int64_t steps, int depth,
                                 float (*w)[kPanelRows]) {
  for (int p = 0; p < P; ++p)
    for (int j = 0; j < depth; ++j) W::keep(w[P * j + p], W::step(panels + (p * steps + j) * kStepElements<W>));
}

// What the next operands are made of, `lines` cache lines of each of P panels `stride` bytes apart: fetched a few at a
// time while the current operands are multiplied, or memory would be waited for. On a Zen 5 that is 5 % of a prompt
// with F16 weights; fetched into the second-level cache only it was 1 %.
template <int P>
struct Ahead {
  const std::byte* from;
  std::int64_t stride, lines;

  void fetch(std::int64_t count) {
    for (; count > 0 && lines > 0; --count, --lines, from += 64)
      for (int p = 0; p < P; ++p) __builtin_prefetch(from + p * stride, 0, 3);
  }
};

// All columns of a tile, from step `begin` on; a column has `steps`. Beside every strip `share` lines are fetched.
template <class W, int P>
void multiply_tile(const float (*w)[kPanelRows], std::int64_t steps, std::int64_t begin, int depth,
                   const typename W::Column* x, std::int64_t columns, float (*sums)[P][kPanelRows], Ahead<P>& ahead,
                   std::int64_t share) {
  const Strips strips = Strips::of(columns);
  for (std::int64_t s = 0; s < strips.count; ++s) {
    const std::int64_t first = strips.first(s);
    ahead.fetch(share);
    with_columns<kStripColumns>(
        strips.columns(s), [&]<int C>() { multiply<W, P, C>(w, depth, x + first * steps + begin * C, sums + first); });
  }
}

// `count` times P panels; those that follow are there up to `panel_end`.
template <class W, int P>
void gemm(const MatmulArgs& args, std::int64_t panel, std::int64_t count) {
  alignas(64) float sums[kGroupPanels / P][kGemmColumns][P][kPanelRows];
  alignas(64) float w[kDepth * P][kPanelRows];
  const std::int64_t steps = steps_of<W>(args.k), stride = steps * kStepElements<W>;
  const auto* panels = reinterpret_cast<const typename W::Element*>(args.panels) + panel * stride;
  const auto depth_at = [&](std::int64_t begin) {
    return static_cast<int>(steps - begin < kDepth ? steps - begin : kDepth);
  };
  // The operands after those of panels i at step `begin`, from memory; the caches have them after the first columns.
  const auto after = [&](std::int64_t i, std::int64_t begin) {
    if (++i == count && (begin += kDepth) < steps) i = 0;
    if (begin >= steps) begin = 0;  // of the panels that follow
    const bool there = panel + (i + 1) * P <= args.panel_end;
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename W::Element));
    return Ahead<P>{reinterpret_cast<const std::byte*>(panels + i * P * stride + begin * kStepElements<W>),
                    stride * kSize, there ? depth_at(begin) * kStepElements<W> * kSize / 64 : 0};
  };
  for (std::int64_t first = 0; first < args.x->n; first += kGemmColumns) {
    const std::int64_t columns = args.x->n - first < kGemmColumns ? args.x->n - first : kGemmColumns;
    for (std::int64_t i = 0; i < count; ++i)
      __builtin_memset(sums[i], 0, static_cast<std::size_t>(columns) * sizeof sums[i][0]);
    for (std::int64_t begin = 0; begin < steps; begin += kDepth) {
      const int depth = depth_at(begin);
      for (std::int64_t i = 0; i < count; ++i) {
        Ahead<P> ahead = first == 0 ? after(i, begin) : Ahead<P>{};
        const std::int64_t share = ahead.lines * kStripColumns / columns + 1;
        keep_operands<W, P>(panels + i * P * stride + begin * kStepElements<W>, steps, depth, w);
        for (std::int64_t c = 0; c < columns; c += kTileColumns) {
          std::int64_t tile_columns;
          const auto* x =
              reinterpret_cast<const typename W::Column*>(activation_tile(*args.x, first + c, tile_columns));
          multiply_tile<W, P>(w, steps, begin, depth, x, tile_columns, sums[i] + c, ahead, share);
        }
      }
    }
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t c = 0; c < columns; ++c)
        for (int p = 0; p < P; ++p) store_rows(args, panel + i * P + p, first + c, load(sums[i][c][p]));
  }
}

// n <= kGroupPanels panels, P at a time and what is left fewer at a time; four as two and two, not as three and one.
template <class W, int P>
void gemm_group(const MatmulArgs& args, std::int64_t panel, std::int64_t n) {
  const std::int64_t whole = P == 3 && n == 4 ? 0 : n / P;
  if (whole > 0) gemm<W, P>(args, panel, whole);
  if constexpr (P > 1)
    if (n > whole * P) gemm_group<W, P - 1>(args, panel + whole * P, n - whole * P);
}

template <class W>
void matmul(const MatmulArgs& args) {
  if (args.x->n <= kGemvColumns)
    return with_columns<kGemvColumns>(args.x->n, [&]<int C>() { gemv_panels<W, C>(args); });
  if (args.x->n <= kFewStrips * kStripColumns) return gemv_strips<W>(args);
  for (std::int64_t p = args.panel_begin; p < args.panel_end; p += kGroupPanels)
    gemm_group<W, kTilePanels>(args, p, args.panel_end - p < kGroupPanels ? args.panel_end - p : kGroupPanels);
}

template <class W>
std::int64_t panel_bytes(std::int64_t k) {
  return steps_of<W>(k) * kStepElements<W> * static_cast<std::int64_t>(sizeof(typename W::Element));
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
  for (std::int64_t i = k * kPanelRows; i < steps_of<W>(k) * kStepElements<W>; ++i) out[i] = 0;
}

template <class W>
void unpack_row(const std::byte* panel, int row, std::int64_t k, float* out) {
  const auto* p = reinterpret_cast<const typename W::Element*>(panel);
  for (std::int64_t i = 0; i < k; ++i) out[i] = W::value(p[i * kPanelRows + row]);
}

template <class W>
void unpack(const std::byte* panel, std::int64_t, std::int64_t begin, std::int64_t end, float* out) {
  const auto* p = reinterpret_cast<const typename W::Element*>(panel);
  for (std::int64_t i = begin; i < end; ++i, out += kPanelRows) store(out, W::step(p + i * kPanelRows));
}

template <class W>
constexpr PanelFormat format() {
  PanelFormat f = {W::kActivation, 1, panel_bytes<W>, pack<W>, unpack_row<W>, matmul<W>};
  if constexpr (W::kRows == 1) f.unpack = unpack<W>;
  return f;
}

constexpr PanelFormat kF16Panels = format<F16Weights>(), kBf16Panels = format<Bf16Weights>();

}  // namespace

extern const DensePanels dense_panels_table;
#if KVASIR_HAS_BF16
const DensePanels dense_panels_table = {format<F32Weights>(),  kF16Panels,          kBf16Panels,
                                        format<F16Pairs>(),    format<Bf16Pairs>(), rounded<kF16Panels>(),
                                        rounded<kBf16Panels>()};
#else
const DensePanels dense_panels_table = {format<F32Weights>(),  kF16Panels, kBf16Panels, {}, {}, rounded<kF16Panels>(),
                                        rounded<kBf16Panels>()};
#endif

}  // namespace kvasir::kernel::KVASIR_TARGET
