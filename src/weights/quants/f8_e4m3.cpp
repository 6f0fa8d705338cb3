// E4M3: x = s c with c a float of 8 bits (sign, 4 of exponent with a bias of 7, 3), blocks of 64,
//   f32 s, 64 bytes
// All ones but the sign stand for no number: where a folder has one, s of its block is NaN (safetensors/f8_rows.hpp).
// Computed in float32: a panel has the weights of an F32 panel, and its products the same bits. Panel: for every 64
// elements s (16 f32), then (64, 16 rows) bytes.
#include <algorithm>
#include <cmath>

#include "kernel/activation_tile.hpp"
#include "kernel/matmul.hpp"
#include "kernel/rounded_products.hpp"
#include "simd/shapes.hpp"
#include "simd/vec.hpp"
#include "weights/families/short_scales.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;
using kernel::Activations;
using kernel::kGemvColumns;
using kernel::kPanelRows;
using kernel::kTileColumns;
using kernel::MatmulArgs;
using kernel::KVASIR_TARGET::kStripColumns;
using kernel::KVASIR_TARGET::Strips;

constexpr int kBlock = 64, kBlockBytes = 4 + kBlock;
constexpr std::int64_t kPartBytes = 4 * kPanelRows + kBlock * kPanelRows;  // a block of 16 rows

// Sixteen codes as floats. With the exponent of a float e is 120 more: 2^(e - 7) (1 + m / 8). Where e is 0 the value is
// 2^-6 m / 8: as much as with e = 1, less 2^-6. That difference, of the exponent that is one higher, is the lesser one
// for e = 0 only.
KVASIR_INLINE F32 values_of(const std::byte* codes) {
  const I32 c = load_u8(reinterpret_cast<const std::uint8_t*>(codes));
  const I32 size = shift_left32<20>(and_(c, set1_i32(127)));
  const F32 normal = bits_to_f32(add(size, set1_i32(120 << 23)));
  const F32 above = sub(bits_to_f32(add(size, set1_i32(121 << 23))), set1(0x1p-6f));
  const I32 sign = shift_left32<24>(and_(c, set1_i32(128)));
  return bits_to_f32(add(f32_to_bits(min(normal, above)), sign));
}
float value_of(std::byte code) {
  std::byte codes[16] = {code};
  float x[16];
  store(x, values_of(codes));
  return x[0];
}

KVASIR_INLINE F32 scales_of(const std::byte* part) { return load(reinterpret_cast<const float*>(part)); }
KVASIR_INLINE const std::byte* codes_of(const std::byte* part) { return part + 4 * kPanelRows; }

std::int64_t panel_bytes(std::int64_t k) { return k / kBlock * kPartBytes; }

void pack(const std::byte* const rows[kPanelRows], std::int64_t k, std::byte* panel) {
  for (std::int64_t b = 0; b < k / kBlock; ++b, panel += kPartBytes)
    for (int r = 0; r < kPanelRows; ++r) {
      std::byte block[kBlockBytes] = {};
      if (rows[r]) __builtin_memcpy(block, rows[r] + b * kBlockBytes, kBlockBytes);
      __builtin_memcpy(panel + 4 * r, block, 4);
      for (int i = 0; i < kBlock; ++i) panel[4 * kPanelRows + i * kPanelRows + r] = block[4 + i];
    }
}

void unpack_row(const std::byte* panel, int row, std::int64_t k, float* out) {
  for (std::int64_t b = 0; b < k / kBlock; ++b, panel += kPartBytes) {
    float s;
    __builtin_memcpy(&s, panel + 4 * row, 4);
    for (int i = 0; i < kBlock; ++i) *out++ = value_of(codes_of(panel)[i * kPanelRows + row]) * s;
  }
}

void dequantise(const std::byte* row, float* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / kBlock; ++b, row += kBlockBytes) {
    float s;
    __builtin_memcpy(&s, row, 4);
    for (int i = 0; i < kBlock; i += 16, out += 16) store(out, mul(values_of(row + 4 + i), set1(s)));
  }
}

// To nearest, ties to even codes, with the largest value at 448.
std::byte code_of(float x) {
  const float size = std::fmin(std::fabs(x), 448.0f);
  const int e = std::max(size > 0 ? std::ilogb(size) : -6, -6);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - e)));  // of 2^(e - 3); 8 to 16 where normal
  return static_cast<std::byte>((std::signbit(x) ? 128 : 0) + 8 * (e + 6) + steps);
}

void quantise(const float* row, std::byte* out, std::int64_t n) {
  for (std::int64_t b = 0; b < n / kBlock; ++b, row += kBlock, out += kBlockBytes) {
    float most = 0;
    for (int i = 0; i < kBlock; ++i) most = std::fmax(most, std::fabs(row[i]));
    const float s = shortened(most / 448.0f);
    __builtin_memcpy(out, &s, 4);
    for (int i = 0; i < kBlock; ++i) out[4 + i] = code_of(s > 0 ? row[i] / s : 0.0f);
  }
}

KVASIR_INLINE void store_rows(const MatmulArgs& args, std::int64_t panel, std::int64_t column, F32 acc) {
  const std::int64_t row = panel * kPanelRows;
  float* out = args.out + column * args.ldo + row;
  if (row + kPanelRows <= args.rows)
    store(out, acc);
  else
    store_n(out, acc, static_cast<int>(args.rows - row));
}

// f.template operator()<C>() for `columns`, at most kMost.
template <int kMost, class F>
KVASIR_INLINE void for_columns(std::int64_t columns, F&& f) {
  if (columns == kMost) return f.template operator()<kMost>();
  if constexpr (kMost > 1) for_columns<kMost - 1>(columns, static_cast<F&&>(f));
}

// Few columns: P panels are streamed past C columns, what follows is fetched a few blocks ahead.
template <int P, int C>
void gemv(const MatmulArgs& args, std::int64_t panel) {
  constexpr std::int64_t kAhead = 2 * kPartBytes;
  const std::int64_t stride = panel_bytes(args.k);
  const std::byte* part = args.panels + panel * stride;
  const auto* x = reinterpret_cast<const float*>(args.x->data);
  F32 acc[P][C];
  for (int p = 0; p < P; ++p)
    for (int c = 0; c < C; ++c) acc[p][c] = zero();
  for (std::int64_t b = 0; b < args.k / kBlock; ++b, part += kPartBytes) {
    F32 s[P];
    for (int p = 0; p < P; ++p) s[p] = scales_of(part + p * stride);
    KVASIR_UNROLL(1)
    for (int i = 0; i < kBlock; ++i, x += C) {
      KVASIR_UNROLL(8)
      for (int p = 0; p < P; ++p) {
        const std::byte* codes = codes_of(part + p * stride) + i * kPanelRows;
        if (i % 4 == 0) __builtin_prefetch(codes + kAhead, 0, 3);
        const F32 w = mul(values_of(codes), s[p]);
        KVASIR_UNROLL(8)
        for (int c = 0; c < C; ++c) acc[p][c] = fma(w, set1(x[c]), acc[p][c]);
      }
    }
  }
  for (int p = 0; p < P; ++p)
    for (int c = 0; c < C; ++c) store_rows(args, panel + p, c, acc[p][c]);
}

// Many columns: the weights of a block of P panels are made once for a tile of columns, whose sums rest in the L1
// cache.
template <int P>
void gemm(const MatmulArgs& args, std::int64_t panel) {
  alignas(64) float sums[kTileColumns][P][kPanelRows];
  alignas(64) float w[kBlock][P][kPanelRows];
  const std::int64_t stride = panel_bytes(args.k);
  for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
    std::int64_t columns;
    const auto* x = reinterpret_cast<const float*>(kernel::KVASIR_TARGET::activation_tile(*args.x, first, columns));
    const Strips strips = Strips::of(columns);
    __builtin_memset(sums, 0, static_cast<std::size_t>(columns) * sizeof sums[0]);
    for (std::int64_t b = 0; b < args.k / kBlock; ++b) {
      const std::byte* part = args.panels + panel * stride + b * kPartBytes;
      for (int p = 0; p < P; ++p) {
        const F32 s = scales_of(part + p * stride);
        for (int i = 0; i < kBlock; ++i)
          store(w[i][p], mul(values_of(codes_of(part + p * stride) + i * kPanelRows), s));
      }
      for (std::int64_t strip = 0; strip < strips.count; ++strip) {
        const std::int64_t at = strips.first(strip);
        for_columns<kStripColumns>(strips.columns(strip), [&]<int C>() {
          const float* from = x + at * args.k + b * kBlock * C;
          F32 acc[P][C];
          for (int p = 0; p < P; ++p)
            for (int c = 0; c < C; ++c) acc[p][c] = load(sums[at + c][p]);
          KVASIR_UNROLL(1)
          for (int i = 0; i < kBlock; ++i, from += C) {
            KVASIR_UNROLL(8)
            for (int p = 0; p < P; ++p) {
              const F32 wp = load(w[i][p]);
              KVASIR_UNROLL(8)
              for (int c = 0; c < C; ++c) acc[p][c] = fma(wp, set1(from[c]), acc[p][c]);
            }
          }
          for (int p = 0; p < P; ++p)
            for (int c = 0; c < C; ++c) store(sums[at + c][p], acc[p][c]);
        });
      }
    }
    for (std::int64_t c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) store_rows(args, panel + p, first + c, load(sums[c][p]));
  }
}

void matmul(const MatmulArgs& args) {
  std::int64_t p = args.panel_begin;
  if (args.x->n <= kGemvColumns)
    return for_columns<kGemvColumns>(args.x->n, [&]<int C>() {
      if constexpr (!kFewShapes)
        for (; p + 2 <= args.panel_end; p += 2) gemv<2, C>(args, p);
      for (; p < args.panel_end; ++p) gemv<1, C>(args, p);
    });
  constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 && !kFewShapes ? 2 : 1;
  if constexpr (kPanels > 1)
    for (; p + kPanels <= args.panel_end; p += kPanels) gemm<kPanels>(args, p);
  for (; p < args.panel_end; ++p) gemm<1>(args, p);
}

void unpack(const std::byte* panel, std::int64_t, std::int64_t begin, std::int64_t end, float* out) {
  for (std::int64_t i = begin; i < end; ++i, out += kPanelRows) {
    const std::byte* const part = panel + i / kBlock * kPartBytes;
    store(out, mul(values_of(codes_of(part) + i % kBlock * kPanelRows), scales_of(part)));
  }
}

constexpr kernel::PanelFormat kFormat{
    kernel::ActivationKind::kF32, kBlock, panel_bytes, pack, unpack_row, matmul, nullptr, unpack};
constexpr kernel::PanelFormat kRounded = kernel::KVASIR_TARGET::rounded<kFormat>();

}  // namespace

extern const Quant f8_e4m3;
const Quant f8_e4m3{.summary = "8-bit floats E4M3, blocks of 64 with an f32 scale",
                    .block = kBlock,
                    .block_bytes = kBlockBytes,
                    .dequantise = dequantise,
                    .quantise = quantise,
                    .panel = &kFormat,
                    .rounded = &kRounded};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
