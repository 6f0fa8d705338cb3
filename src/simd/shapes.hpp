// Kernels come in shapes: a copy per number of rows, columns or panels that they handle at once. Which one runs changes
// speed and never bits. With KVASIR_FEW_SHAPES there are only those that a single answer and its prompt use most: 2,
// which cmake/isa.cmake gives to the reference (half of its code and compiler time), or 1, where the scalar set has one
// of each (tools/amalgamate.py). For sources compiled per instruction set.
#pragma once

#ifndef KVASIR_TARGET
#error "simd/shapes.hpp is for sources compiled once per instruction set (cmake/isa.cmake)"
#endif

namespace kvasir::simd::KVASIR_TARGET {

#if !defined(KVASIR_FEW_SHAPES)
inline constexpr bool kFewShapes = false, kOneShape = false;
#elif defined(KVASIR_TARGET_scalar) && KVASIR_FEW_SHAPES == 1
inline constexpr bool kFewShapes = true, kOneShape = true;
#else
inline constexpr bool kFewShapes = true, kOneShape = false;
#endif

}  // namespace kvasir::simd::KVASIR_TARGET
