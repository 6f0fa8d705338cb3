// The x86 intrinsics of the shims and kernels. With -DKVASIR_EMULATE_AVX512=ON (for tests, see cmake/isa.cmake) the
// copies for AVX-512 are compiled without it: their 512-bit intrinsics become AVX2.
#pragma once

#include <immintrin.h>

// The constraint of inline assembly for a 512-bit register; emulated, none exists and the vector is in memory.
#if defined(KVASIR_EMULATE_AVX512)
#include "simd/emulated_avx512.hpp"
#define KVASIR_WIDE_REGISTER "+m"
#else
#define KVASIR_WIDE_REGISTER "+v"
#endif
