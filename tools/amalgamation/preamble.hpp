// Kvasir @VERSION@ in two files, kvasir.h and kvasir.cpp, written by tools/amalgamate.py: a change belongs into the
// sources that are named below.
//
//   c++ -O2 -std=c++20 app.cpp kvasir.cpp -pthread
//
// Copyright the authors of Kvasir, Apache License 2.0: https://www.apache.org/licenses/LICENSE-2.0
// Copied into this file, each with its own notice: {fmt} (MIT), JSON for Modern C++ (MIT), xxHash (BSD 2-Clause).
#if !defined(__cplusplus) || __cplusplus < 202002L
#error "kvasir.cpp is C++20: compile it with -std=c++20"
#endif
#if defined(__FAST_MATH__)
#error "kvasir.cpp counts on the order of additions and on infinities: compile it without -ffast-math"
#endif
#if defined(__CHAR_UNSIGNED__)
#error "kvasir.cpp compares texts as signed bytes: compile it with -fsigned-char"
#endif
#if defined(__aarch64__) && defined(__ARM_FEATURE_SVE)
#error "kvasir.cpp chooses instruction sets while it runs: compile it without -march"
#endif

// Multiplications and additions are fused where a kernel says so and nowhere else, so every instruction set has the same
// bits. Before everything that may be inlined. Kernels are compiled with -O2, everything else with -O1, which takes the
// compiler half as long.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wunused-function"
#else
#pragma GCC optimize("fp-contract=off", "no-math-errno")
#if defined(__OPTIMIZE__)
#pragma GCC optimize("O1")
#endif
// Operands that the intrinsics of GCC 12 leave undefined on purpose, and vectors that are passed between functions of
// one instruction set.
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#include "kvasir.h"

#define KVASIR_VERSION "@VERSION@"
// simd/shapes.hpp: kernels for fewer shapes, which compile in a third of the time.
#define KVASIR_FEW_SHAPES 1

