// Panels of f32 and bf16 weights.
//   f32   (K, 16) float
//   bf16  (ceil(K/2), 16, 2) bf16: a 32-bit lane holds two consecutive k of one row
#include "kernel/activation_tile.hpp"
#include "kernel/interleave.hpp"
#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

struct DenseF32 {
  static constexpr std::int64_t kStepBytes = 64;  // weights of 16 rows for one step
  static constexpr ActivationKind kKind = ActivationKind::kF32;
  static std::int64_t steps(std::int64_t k) { return k; }
  using Weight = F32;
  KVASIR_INLINE Weight weight(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
  KVASIR_INLINE F32 dot(F32 acc, Weight w, const std::byte* x) {
    return fma(w, set1(*reinterpret_cast<const float*>(x)), acc);
  }
};

struct DenseBf16 {
  static constexpr std::int64_t kStepBytes = 64;
  static constexpr ActivationKind kKind = ActivationKind::kBf16;
  static std::int64_t steps(std::int64_t k) { return (k + 1) / 2; }
  using Weight = Bytes;
  KVASIR_INLINE Weight weight(const std::byte* p) { return load_bytes(p); }
  KVASIR_INLINE F32 dot(F32 acc, Weight w, const std::byte* x) { return dot_bf16(acc, w, broadcast4(x)); }
};

// P panels times C columns, accumulators in registers. x points at the first column of the first step; a step of nc columns
// takes 4 nc bytes in both kinds.
template <class F, int P, int C>
__attribute__((always_inline)) inline void tile(const MatmulArgs& args, std::int64_t panel, std::int64_t panel_stride,
                                                const std::byte* x, std::int64_t x_step, std::int64_t column) {
  F32 acc[P][C];
  for (int p = 0; p < P; ++p)
    for (int c = 0; c < C; ++c) acc[p][c] = zero();
  const std::byte* w = args.panels + panel * panel_stride;
  const std::int64_t steps = F::steps(args.k);
  for (std::int64_t s = 0; s < steps; ++s, w += F::kStepBytes, x += x_step) {
    typename F::Weight weights[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) weights[p] = F::weight(w + p * panel_stride);
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c)
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) acc[p][c] = F::dot(acc[p][c], weights[p], x + 4 * c);
  }
  for (int p = 0; p < P; ++p) {
    const std::int64_t row = (panel + p) * kPanelRows;
    for (int c = 0; c < C; ++c) {
      float* out = args.out + (column + c) * args.ldo + row;
      if (row + kPanelRows <= args.rows) {
        store(out, acc[p][c]);
      } else {
        store_n(out, acc[p][c], static_cast<int>(args.rows - row));
      }
    }
  }
}

template <class F, int P>
void panels(const MatmulArgs& args, std::int64_t panel, std::int64_t stride) {
  constexpr int kColumns = KVASIR_VECTOR_REGISTERS >= 32 ? 8 : 3;
  for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
    std::int64_t columns;
    const std::byte* x = activation_tile(*args.x, first, columns);
    std::int64_t c = 0;
    for (; c + kColumns <= columns; c += kColumns) tile<F, P, kColumns>(args, panel, stride, x + 4 * c, 4 * columns, first + c);
    for (; c < columns; ++c) tile<F, P, 1>(args, panel, stride, x + 4 * c, 4 * columns, first + c);
  }
}

template <class F>
void matmul(const MatmulArgs& args) {
  constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 ? 3 : 1;
  const std::int64_t stride = F::steps(args.k) * F::kStepBytes;
  std::int64_t p = args.panel_begin;
  if (args.x->n <= kGemvColumns) {
    // One column: eight panels keep enough independent chains and loads in flight.
    for (; p + 8 <= args.panel_end; p += 8)
      for (std::int64_t c = 0; c < args.x->n; ++c) tile<F, 8, 1>(args, p, stride, args.x->data + 4 * c, 4 * args.x->n, c);
  } else {
    for (; p + kPanels <= args.panel_end; p += kPanels) panels<F, kPanels>(args, p, stride);
  }
  for (; p < args.panel_end; ++p) panels<F, 1>(args, p, stride);
}

std::int64_t panel_bytes_f32(std::int64_t k) { return k * 64; }
std::int64_t panel_bytes_bf16(std::int64_t k) { return (k + 1) / 2 * 64; }

void pack_f32(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel) {
  interleave_words(rows, k, reinterpret_cast<std::uint32_t*>(panel));
}

void pack_bf16(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel) {
  interleave_words(rows, k / 2, reinterpret_cast<std::uint32_t*>(panel));
  if (k % 2 == 0) return;
  auto* last = reinterpret_cast<std::uint16_t*>(panel + k / 2 * 64);  // the pair's second element is 0
  for (int r = 0; r < kPanelRows; ++r) {
    last[2 * r] = rows[r] ? reinterpret_cast<const std::uint16_t*>(rows[r])[k - 1] : std::uint16_t{0};
    last[2 * r + 1] = 0;
  }
}

void unpack_row_f32(const std::byte* panel, int row, std::int64_t k, float* out) {
  const auto* p = reinterpret_cast<const float*>(panel);
  for (std::int64_t i = 0; i < k; ++i) out[i] = p[i * kPanelRows + row];
}

void unpack_row_bf16(const std::byte* panel, int row, std::int64_t k, float* out) {
  const auto* p = reinterpret_cast<const std::uint16_t*>(panel);
  for (std::int64_t i = 0; i < k; ++i) out[i] = simd::bf16_to_f32(p[(i / 2 * kPanelRows + row) * 2 + i % 2]);
}

}  // namespace

extern const DensePanels dense_panels_table;
const DensePanels dense_panels_table = {
    .f32 = {ActivationKind::kF32, 1, panel_bytes_f32, pack_f32, unpack_row_f32, matmul<DenseF32>},
    .bf16 = {ActivationKind::kBf16, 1, panel_bytes_bf16, pack_bf16, unpack_row_bf16, matmul<DenseBf16>},
};

}  // namespace kvasir::kernel::KVASIR_TARGET
