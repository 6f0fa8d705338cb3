// F16 and BF16: rows of 16-bit floats.
#pragma once

#include "kernel/matmul.hpp"
#include "simd/half.hpp"
#include "simd/vec.hpp"

namespace kvasir::weights::entries::quants::KVASIR_TARGET {

enum class Half { kIeee, kBrain };

template <Half kKind>
struct HalfRows {
  static void dequantise(const std::byte* row, float* out, std::int64_t n) {
    const auto* p = reinterpret_cast<const std::uint16_t*>(row);
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = kKind == Half::kIeee ? simd::f16_to_f32(p[i]) : simd::bf16_to_f32(p[i]);
  }
  static void quantise(const float* row, std::byte* out, std::int64_t n) {
    auto* p = reinterpret_cast<std::uint16_t*>(out);
    for (std::int64_t i = 0; i < n; ++i)
      p[i] = kKind == Half::kIeee ? simd::f32_to_f16(row[i]) : simd::f32_to_bf16(row[i]);
  }
};

}  // namespace kvasir::weights::entries::quants::KVASIR_TARGET
