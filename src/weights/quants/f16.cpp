// F16: rounded to bfloat16 when packed (8 instead of 11 bits of mantissa), because the bf16 dot product is the fastest
// one that keeps float sums. `--exact` computes from the file's values.
#include "kernel/interleave.hpp"
#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

void dequantise(const std::byte* row, float* out, std::int64_t n) {
  const auto* p = reinterpret_cast<const std::uint16_t*>(row);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, load_f16(p + i));
  for (; i < n; ++i) out[i] = simd::f16_to_f32(p[i]);
}
void quantise(const float* row, std::byte* out, std::int64_t n) {
  auto* p = reinterpret_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < n; ++i) p[i] = simd::f32_to_f16(row[i]);
}

// Panels of bf16 (kernel/dense_panels.simd.cpp), up to 128 elements at a time: converted by rows, then interleaved.
void pack(const std::byte* const rows[kernel::kPanelRows], std::int64_t k, std::byte* panel) {
  constexpr std::int64_t kStep = 128;
  alignas(64) std::uint16_t converted[kernel::kPanelRows][kStep];
  const std::byte* converted_rows[kernel::kPanelRows];
  for (int r = 0; r < kernel::kPanelRows; ++r)
    converted_rows[r] = rows[r] ? reinterpret_cast<const std::byte*>(converted[r]) : nullptr;
  auto* out = reinterpret_cast<std::uint32_t*>(panel);  // (ceil(k/2), 16) pairs
  for (std::int64_t first = 0; first < k; first += kStep) {
    const std::int64_t n = k - first < kStep ? k - first : kStep;
    for (int r = 0; r < kernel::kPanelRows; ++r) {
      if (!rows[r]) continue;
      const auto* row = reinterpret_cast<const std::uint16_t*>(rows[r]) + first;
      std::int64_t i = 0;
      for (; i + 16 <= n; i += 16) store_bf16(converted[r] + i, load_f16(row + i));
      if (i == n) continue;
      std::uint16_t half[16] = {};
      __builtin_memcpy(half, row + i, static_cast<std::size_t>(2 * (n - i)));
      store_bf16(converted[r] + i, load_f16(half));
    }
    kernel::KVASIR_TARGET::interleave_words(converted_rows, (n + 1) / 2, out);
    out += kStep / 2 * kernel::kPanelRows;
  }
}

}  // namespace

extern const Quant f16;
static const kernel::PanelFormat& kDense = kernel::KVASIR_TARGET::dense_panels_table.bf16;
static std::int64_t panel_bytes(std::int64_t k) { return kDense.panel_bytes(k); }
static void unpack_row(const std::byte* panel, int row, std::int64_t k, float* out) {
  kDense.unpack_row(panel, row, k, out);
}
static void matmul(const kernel::MatmulArgs& args) { kDense.matmul(args); }
static constexpr kernel::PanelFormat kPanel = {kernel::ActivationKind::kBf16, 1, panel_bytes, pack, unpack_row, matmul};
const Quant f16 = {"16-bit float, computed in bfloat16", 1, 1, 1, 2, dequantise, quantise, &kPanel};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
