// simd/vec.hpp for AVX2 with AVX-VNNI: processors without AVX-512 whose dot product of bytes is one instruction.
#pragma once

#define KVASIR_AVX_VNNI 1
#include "simd/vec_avx2.hpp"
