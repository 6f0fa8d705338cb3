// Which instruction sets multiply F16 and BF16 weights as bf16.
#pragma once

#include "simd/isa.hpp"

namespace kvasir::simd {

// Such a set gives other bits than all others, for models with weights of these types.
bool multiplies_bf16(Isa isa);

}  // namespace kvasir::simd
