// Which instruction sets multiply F16 and BF16 weights as bf16, and which have tiles of bf16.
#pragma once

#include "simd/isa.hpp"

namespace kvasir::simd {

// Such a set gives other bits than all others, for models with weights of these types.
bool multiplies_bf16(Isa isa);

// has_tiles on a processor with AMX-BF16: kernel/rounded_products.hpp, to the bits of every set.
bool has_bf16_tiles(Isa isa);

// Whether there is an instruction that rounds floats to bf16 as AVX512-BF16 does: subnormal numbers become 0.
bool converts_to_bf16(Isa isa);

}  // namespace kvasir::simd
