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

// Few columns: P panels are streamed past C columns; P * C independent chains hide the latency of the FMA.
template <class W, int P, int C>
void gemv(const MatmulArgs& args, std::int64_t panel) {
  const auto* w = reinterpret_cast<const typename W::Element*>(args.panels) + panel * args.k * kPanelRows;
  const auto* x = reinterpret_cast<const float*>(args.x->data);
  const std::int64_t stride = args.k * kPanelRows;
  constexpr int kAhead = 2048 / static_cast<int>(sizeof(typename W::Element));  // elements to prefetch ahead
  F32 acc[P][C];
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
  for (int c = 0; c < C; ++c) acc[p][c] = zero();
  for (std::int64_t k = 0; k < args.k; ++k, w += kPanelRows, x += C) {
    F32 xs[C];
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) xs[c] = set1(x[c]);
    KVASIR_UNROLL(8)
    for (int p = 0; p < P; ++p) {
      __builtin_prefetch(w + p * stride + kAhead, 0, 2);
      const F32 wp = W::row16(w + p * stride);
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) acc[p][c] = fma(wp, xs[c], acc[p][c]);
    }
  }
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
  for (int c = 0; c < C; ++c) store_rows(args, panel + p, c, acc[p][c]);
}

template <class W, int C>
void gemv_panels(const MatmulArgs& args) {
  constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 ? 4 : 2;
  std::int64_t p = args.panel_begin;
  for (; p + kPanels <= args.panel_end; p += kPanels) gemv<W, kPanels, C>(args, p);
  for (; p < args.panel_end; ++p) gemv<W, 1, C>(args, p);
}

// Many columns: weights of P panels and kDepth steps are widened once to floats in the L1 cache and used for all
// columns of a tile; P x C accumulators are in registers, between chunks of K they rest in `sums`.
constexpr int kDepth = 64;

template <int P, int C>
KVASIR_INLINE void multiply(const float (*w)[kDepth][kPanelRows], int depth, const float* x, std::int64_t columns,
                            float (*sums)[P][kPanelRows]) {
  F32 acc[P][C];
  KVASIR_UNROLL(8)
  for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
  for (int c = 0; c < C; ++c) acc[p][c] = load(sums[c][p]);
  for (int k = 0; k < depth; ++k, x += columns) {
    F32 wk[P];
    KVASIR_UNROLL(8)
    for (int p = 0; p < P; ++p) wk[p] = load(w[p][k]);
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

template <class W, int P>
void gemm(const MatmulArgs& args, std::int64_t panel) {
  alignas(64) float w[P][kDepth][kPanelRows];
  alignas(64) float sums[kTileColumns][P][kPanelRows];
  const auto* panels = reinterpret_cast<const typename W::Element*>(args.panels) + panel * args.k * kPanelRows;
  for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
    std::int64_t columns;
    const auto* x = reinterpret_cast<const float*>(activation_tile(*args.x, first, columns));
    __builtin_memset(sums, 0, sizeof sums);
    for (std::int64_t k = 0; k < args.k; k += kDepth) {
      const int depth = static_cast<int>(args.k - k < kDepth ? args.k - k : kDepth);
      for (int p = 0; p < P; ++p)
        for (int j = 0; j < depth; ++j) store(w[p][j], W::row16(panels + (p * args.k + k + j) * kPanelRows));
      const float* xk = x + k * columns;
      std::int64_t c = 0;
      if constexpr (KVASIR_VECTOR_REGISTERS >= 32)
        for (; c + 8 <= columns; c += 8) multiply<P, 8>(w, depth, xk + c, columns, sums + c);
      for (; c + 4 <= columns; c += 4) multiply<P, 4>(w, depth, xk + c, columns, sums + c);
      for (; c < columns; ++c) multiply<P, 1>(w, depth, xk + c, columns, sums + c);
    }
    for (std::int64_t c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) store_rows(args, panel + p, first + c, load(sums[c][p]));
  }
}

template <class W>
void matmul(const MatmulArgs& args) {
  switch (args.x->n) {
    case 1:
      return gemv_panels<W, 1>(args);
    case 2:
      return gemv_panels<W, 2>(args);
    case 3:
      return gemv_panels<W, 3>(args);
    case 4:
      return gemv_panels<W, 4>(args);
    default:
      break;
  }
  constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 ? 3 : 1;
  std::int64_t p = args.panel_begin;
  for (; p + kPanels <= args.panel_end; p += kPanels) gemm<W, kPanels>(args, p);
  for (; p < args.panel_end; ++p) gemm<W, 1>(args, p);
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
