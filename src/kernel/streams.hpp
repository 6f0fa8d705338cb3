// How weights are read that are used once: for sources compiled per instruction set.
#pragma once

#include "simd/isa.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

// Several panels at a time with bytes fetched ahead of their use, or one panel after the other as the hardware's
// prefetchers like it best. The first keeps more memory in flight where those stop at every page of 4 KB: 35.4 GB/s
// instead of 32.7 on two cores of an Emerald Rapids. The second is right on Zen 4: 49 GB/s, or 32 in a worse hour,
// where four streams with fetching get 28 to 38, or 25.
inline constexpr int kStreams = 4;
static inline bool plain_streams() {
#if KVASIR_HAS_BF16
  return simd::active() == simd::Isa::kAvx512Bf16;
#else
  return false;
#endif
}

}  // namespace kvasir::kernel::KVASIR_TARGET
