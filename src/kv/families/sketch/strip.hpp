// Strips: 16 tokens of a raw f16 page, one per lane, channel by channel: float[d][16]. What codecs work on that treat
// every token by itself, for keys and values alike.
#pragma once

#include "kernel/interleave.hpp"
#include "kernel/rotate.hpp"
#include "kv/codec.hpp"
#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

inline constexpr const kernel::RotateKernels& kRotate = kernel::KVASIR_TARGET::rotate_table;
inline constexpr std::uint64_t kStripSeed = 0x6b7661736972;

// Floats of scratch that a strip takes while it is loaded.
constexpr std::ptrdiff_t strip_floats(int d) { return static_cast<std::ptrdiff_t>(d) * kLanes; }

// Numbers that are not finite go to the ends of f16's range.
KVASIR_INLINE F32 load_finite(const std::uint16_t* p) { return min(max(load_f16(p), set1(-65504.0f)), set1(65504.0f)); }

// Tokens [first, first + 16) of a raw block of 128; those below `skip` as zeros. rows: strip_floats(d) of scratch.
template <Side side>
static inline void load_strip(const std::byte* raw, int d, int first, int skip, float* rows, float* strip) {
  const auto* x = reinterpret_cast<const std::uint16_t*>(raw);
  const int skipped = skip <= first ? 0 : skip - first < kLanes ? skip - first : kLanes;
  if constexpr (side == Side::kKeys) {
    for (int c = 0; c < d; ++c)
      store(strip + c * kLanes, select_first(skipped, zero(), load_finite(x + c * kPageTokens + first)));
  } else {
    const std::byte* row[kLanes];
    for (int t = 0; t < kLanes; ++t) {
      float* to = rows + t * d;
      for (int c = 0; c < d; c += kLanes) store(to + c, t < skipped ? zero() : load_finite(x + (first + t) * d + c));
      row[t] = reinterpret_cast<const std::byte*>(to);
    }
    kernel::KVASIR_TARGET::interleave_words(row, d, reinterpret_cast<std::uint32_t*>(strip));
  }
}

// Root mean square of every column.
KVASIR_INLINE F32 column_rms(const float* strip, int d) {
  F32 sum = zero();
  for (int c = 0; c < d; ++c) {
    const F32 x = load(strip + c * kLanes);
    sum = fma(x, x, sum);
  }
  return sqrt(mul(sum, set1(1.0f / static_cast<float>(d))));
}

// Writes x >= 0 as f16 and returns what is read back.
KVASIR_INLINE F32 store_rounded(std::uint16_t* p, F32 x) {
  store_f16(p, min(x, set1(65504.0f)));
  return load_f16(p);
}

// 1 where x >= bound, else 0.
KVASIR_INLINE F32 at_least(F32 x, F32 bound) { return zero_if_less(x, bound, set1(1.0f)); }

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
