// F16: kept as it is, computed in float, or as bf16 where that is twice as fast.
#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

void dequantise(const std::byte* row, float* out, std::int64_t n) {
  const auto* p = reinterpret_cast<const std::uint16_t*>(row);
  for (std::int64_t i = 0; i < n; ++i) out[i] = simd::f16_to_f32(p[i]);
}
void quantise(const float* row, std::byte* out, std::int64_t n) {
  auto* p = reinterpret_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < n; ++i) p[i] = simd::f32_to_f16(row[i]);
}

}  // namespace

extern const Quant f16;
const Quant f16 = {"16-bit float",
                   1,
                   1,
                   1,
                   2,
                   dequantise,
                   quantise,
                   &kernel::KVASIR_TARGET::dense_panels_table.f16,
                   &kernel::KVASIR_TARGET::dense_panels_table.f16_pairs};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
