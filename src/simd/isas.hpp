// The instruction sets, each once. What has a part per set is made from these rows: the enumeration and the tables of
// kernels (simd/isa.hpp), object libraries and registries (cmake/isa.cmake reads this file), what tools/isas prints.
// A new set is a row, its flags in cmake/isa.cmake, its shims simd/vec_SHIMS.hpp and a case of simd::supported.
#pragma once

// In increasing order of preference:  X(enumerator, name, copy, shims, "what it needs of a processor", ...)
//   copy   the set whose copy of the kernels it runs; a row that names itself has a copy of its own
//   shims  simd/vec_SHIMS.hpp, which its copy is compiled with
// clang-format off
#define KVASIR_ISAS(X, ...)                                                                        \
  X(kScalar,     scalar,     scalar,     scalar, "none",                          __VA_ARGS__)     \
  X(kAvx2,       avx2,       avx2,       avx2,   "AVX2 FMA F16C",                 __VA_ARGS__)     \
  X(kAvx512,     avx512,     avx512,     avx512, "AVX-512 F BW VL DQ",            __VA_ARGS__)     \
  X(kAvx512Vnni, avx512vnni, avx512vnni, avx512, "AVX-512 F BW VL DQ VNNI BF16",  __VA_ARGS__)     \
  X(kAvx512Bf16, avx512bf16, avx512vnni, avx512, "AVX-512 F BW VL DQ VNNI BF16",  __VA_ARGS__)
// clang-format on
