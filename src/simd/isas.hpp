// The instruction sets, each once. What has a part per set is made from these rows: the enumeration and the tables of
// kernels (simd/isa.hpp), object libraries and registries (cmake/isa.cmake reads this file), what tools/isas prints.
// A new set is a row, its flags in cmake/isa.cmake, its shims simd/vec_SHIMS.hpp and a case of simd::supported.
#pragma once

// In increasing order of preference:  X(enumerator, name, copy, shims, "what it needs of a processor", ...)
//   copy   the set whose copy of the kernels it runs; a row that names itself has a copy of its own. A build may leave copies
//          out (KVASIR_ISAS of cmake/isa.cmake), which makes KVASIR_COPY_<copy> the one below; their sets are not supported
//   shims  simd/vec_SHIMS.hpp, which its copy is compiled with
// A build has the rows of ANY and those of its own processors. "#define" and the word behind KVASIR_ISAS_ are read by
// cmake/isa.cmake and tools/isas, too.
// clang-format off
#define KVASIR_ISAS_ANY(X, ...)                                                                    \
  X(kScalar,     scalar,     scalar,     scalar, "none",                          __VA_ARGS__)
#define KVASIR_ISAS_X86(X, ...)                                                                    \
  X(kAvx2,       avx2,       avx2,       avx2,   "AVX2 FMA F16C",                 __VA_ARGS__)     \
  X(kAvxVnni,    avxvnni,    avxvnni,    avx2,   "AVX2 FMA F16C AVX-VNNI",       __VA_ARGS__)     \
  X(kAvx512Vnni, avx512vnni, avx512vnni, avx512, "AVX-512 F BW VL DQ VNNI",       __VA_ARGS__)     \
  X(kAvx512Bf16, avx512bf16, avx512vnni, avx512, "AVX-512 F BW VL DQ VNNI BF16",  __VA_ARGS__)     \
  X(kAvx512Amx,  avx512amx,  avx512vnni, avx512, "AVX-512 F BW VL DQ VNNI AMX-INT8", __VA_ARGS__)
#define KVASIR_ISAS_ARM(X, ...)                                                                    \
  X(kNeon,       neon,       neon,       neon,   "Advanced SIMD",                 __VA_ARGS__)     \
  X(kNeonDot,    neondot,    neondot,    neon,   "Advanced SIMD DotProd",         __VA_ARGS__)     \
  X(kNeonI8mm,   neoni8mm,   neoni8mm,   neon,   "Advanced SIMD DotProd I8MM BF16", __VA_ARGS__)   \
  X(kNeonBf16,   neonbf16,   neoni8mm,   neon,   "Advanced SIMD DotProd I8MM BF16", __VA_ARGS__)
// clang-format on

// AVX-512 without VNNI (Skylake-X) runs AVX2: the same bits, and no copy of its own to build and ship.
#ifndef KVASIR_COPY_scalar
#define KVASIR_COPY_scalar scalar
#endif
#ifndef KVASIR_COPY_avx2
#define KVASIR_COPY_avx2 avx2
#endif
#ifndef KVASIR_COPY_avxvnni
#define KVASIR_COPY_avxvnni avxvnni
#endif
#ifndef KVASIR_COPY_avx512vnni
#define KVASIR_COPY_avx512vnni avx512vnni
#endif
#ifndef KVASIR_COPY_neon
#define KVASIR_COPY_neon neon
#endif
#ifndef KVASIR_COPY_neondot
#define KVASIR_COPY_neondot neondot
#endif
#ifndef KVASIR_COPY_neoni8mm
#define KVASIR_COPY_neoni8mm neoni8mm
#endif

#if defined(__x86_64__)
#define KVASIR_ISAS(X, ...) KVASIR_ISAS_ANY(X, __VA_ARGS__) KVASIR_ISAS_X86(X, __VA_ARGS__)
#elif defined(__aarch64__)
#define KVASIR_ISAS(X, ...) KVASIR_ISAS_ANY(X, __VA_ARGS__) KVASIR_ISAS_ARM(X, __VA_ARGS__)
#else
#define KVASIR_ISAS(X, ...) KVASIR_ISAS_ANY(X, __VA_ARGS__)
#endif
