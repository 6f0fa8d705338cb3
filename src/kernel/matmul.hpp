// Matrix products with packed weights: out[c][r] = sum_k W[r][k] x[c][k].
//
// Weights lie in panels of 16 rows, interleaved so that a vector lane is a row; activations are broadcast. One output
// is accumulated over k in increasing order whatever the number of columns, panels or threads, so a result never
// depends on its neighbours and one column computed alone has the bits it has in a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kernel {

inline constexpr int kPanelRows = 16;
inline constexpr int kTileColumns = 64;  // columns (tokens) whose activations are interleaved in one tile
inline constexpr int kGemvColumns = 4;   // up to here weights are streamed past columns held in registers

// How activations are prepared for a weight format.
//   kInt8  blocks of 32 with one f32 scale: q = round(x / d), d = max|x| / 127
//   kBf16  rounded to bf16 (to nearest even), in pairs; an odd K is filled up with 0. With simd::multiplies_bf16 only
//   kF32   as they are
//   kRounded  rounded to bf16 (to nearest even), row by row, for kernel/rounded_products.hpp on any instruction set
enum class ActivationKind { kInt8, kBf16, kF32, kRounded };
inline constexpr int kActivationKinds = 4;

// Prepared activations of n columns with K elements each (a view; the buffer belongs to the caller). Columns are
// grouped in tiles of kTileColumns (the last one may be narrower); with nc columns a tile holds
//   kInt8  q (K/32, nc, 32) int8 | d (K/32, nc) f32 | d * sum of q (K/32, nc) f32 | half sums (K/32, nc, 2) int32 |
//          d * half sums (K/32, nc, 2) f32 | starts (K/32, nc) int32, with VNNI and many() columns only. A half sum is
//          the sum of 16 q. With VNNI and many() columns it is stored as a start (kernel/int_sums.hpp). Without VNNI it
//          is two int16: the sum of elements 0 and 1 of every four (low), the sum of elements 2 and 3 (high).
//   kBf16  in strips of columns, each (K/2, columns of the strip, 2): kernel/activation_tile.hpp
//   kF32   f32, in strips of columns, each (K, columns of the strip)
//   kRounded  bf16, (nc, K filled up with zeros to a multiple of 32)
struct Activations {
  ActivationKind kind = ActivationKind::kF32;
  std::byte* data = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t whole = 0;  // of a part: the columns of the activations it is part of

  // Which kernels, and which form of the sums: the same for all tiles of a batch.
  bool many() const { return (whole > 0 ? whole : n) > kGemvColumns; }
};

// Bytes per column; K is a multiple of 32 for kInt8.
constexpr std::int64_t activation_bytes(ActivationKind kind, std::int64_t k) {
  switch (kind) {
    case ActivationKind::kInt8:
      return k + k / 32 * 28;
    case ActivationKind::kBf16:
      return (k + 1) / 2 * 4;
    case ActivationKind::kF32:
      break;
    case ActivationKind::kRounded:
      return (k + 31) / 32 * 64;
  }
  return k * 4;
}

// Columns [begin, end) as activations of their own. REQUIRES: whole tiles, but for the last one of `a`.
constexpr Activations columns_of(const Activations& a, std::int64_t begin, std::int64_t end) {
  return {a.kind, a.data + begin * activation_bytes(a.kind, a.k), end - begin, a.k, a.whole > 0 ? a.whole : a.n};
}

struct MatmulArgs {
  const std::byte* panels;   // panel 0 of the matrix
  std::int64_t k;            // columns of the matrix
  std::int64_t rows;         // rows of the matrix; the last panel may be partly empty
  std::int64_t panel_begin;  // panels [begin, end) are computed
  std::int64_t panel_end;
  const Activations* x;
  float* out;  // (n, ldo)
  std::int64_t ldo;
};

// A packed layout of weights and what can be done with it.
struct PanelFormat {
  ActivationKind activation;
  int k_multiple;  // K must be a multiple of this
  std::int64_t (*panel_bytes)(std::int64_t k);
  // 16 rows in the file's format to one panel; a null row is filled with zeros.
  void (*pack)(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel);
  // One row of a panel as floats (k of them): what the file's row dequantises to, bit for bit.
  void (*unpack_row)(const std::byte* panel, int row, std::int64_t k, float* out);
  void (*matmul)(const MatmulArgs& args);
  // The 16 rows times `factor` instead of 1, for the formats of which files have such a number; null: others.
  void (*set_factor)(std::byte* panel, std::int64_t k, float factor) = nullptr;
  // Elements [begin, end) of the 16 rows as floats (end - begin, 16): the values of unpack_row, but for the sign of
  // zeros. REQUIRES: begin a multiple of 32, end too or k.
  void (*unpack)(const std::byte* panel, std::int64_t k, std::int64_t begin, std::int64_t end, float* out) = nullptr;
};

// Panels of unquantised weights. Any row can be dequantised to float and packed in `f32`: that is `--exact`. Those that
// are called pairs compute with the bf16 dot product, in kernels for it only (elsewhere they are empty).
struct DensePanels {
  PanelFormat f32;
  PanelFormat f16;
  PanelFormat bf16;
  PanelFormat f16_pairs;
  PanelFormat bf16_pairs;
  PanelFormat f16_rounded;  // kernel/rounded_products.hpp
  PanelFormat bf16_rounded;
};
KVASIR_DECLARE_KERNELS(DensePanels, dense_panels)

// Of a column of activations. REQUIRES: begin a multiple of 32, end too or K.
struct Elements {
  std::int64_t begin, end;
};

struct ActivationKernels {
  // Prepares elements [e.begin, e.end) of columns [begin, end) of `a` from x, (end - begin, ldx) floats of which each
  // row's first ones are used. All parts of a column together have the bits that it has prepared at once, but for
  // columns that are not finite: then the parts that are not are NaN, and so are products.
  void (*prepare)(const Activations& a, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx,
                  Elements e);
};
KVASIR_DECLARE_KERNELS(ActivationKernels, activation)

}  // namespace kvasir::kernel
