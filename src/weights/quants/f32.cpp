// F32: computed in float.
#include "kernel/matmul.hpp"
#include "simd/vec.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {
namespace {

void copy(const std::byte* row, float* out, std::int64_t n) {
  __builtin_memcpy(out, row, static_cast<std::size_t>(4 * n));
}
void store(const float* row, std::byte* out, std::int64_t n) {
  __builtin_memcpy(out, row, static_cast<std::size_t>(4 * n));
}

}  // namespace

extern const Quant f32;
const Quant f32{.summary = "32-bit float",
                .block = 1,
                .block_bytes = 4,
                .dequantise = copy,
                .quantise = store,
                .panel = &kernel::KVASIR_TARGET::dense_panels_table.f32};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
