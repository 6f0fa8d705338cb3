// Loops that do nothing but one kind of work, as fast as this machine can: the measure that kernels are held against.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/streaming.hpp"
#include "simd/isa.hpp"

namespace kvasir::kernel {

// The arithmetic loops work on registers only, with enough independent accumulators to fill the pipelines. They run
// `rounds` rounds, return the operations done (a multiply-add counts 2) and leave something in *sink that depends on
// all of them.
struct PeakKernels {
  // Dot products of unsigned by signed bytes, summed in i32: vpdpbusd with VNNI; else vpmaddubsw + vpmaddwd + vpaddd;
  // ARM: sdot, else smull twice + addp + sadalp; scalar: widening multiply and add.
  std::int64_t (*int8_dot)(std::int64_t rounds, float* sink);
  // Dot products of bf16 pairs, summed in f32: vdpbf16ps, bfdot; else one operand is widened to f32 each time, the
  // other is f32 already, and two multiply-adds are done (what a kernel for bf16 weights has to do).
  std::int64_t (*bf16_dot)(std::int64_t rounds, float* sink);
  // f32 multiply-add: FMA; scalar: a multiplication and an addition.
  std::int64_t (*f32_fma)(std::int64_t rounds, float* sink);
  // Reads all of [data, data + bytes) once and writes nothing; returns the sum of its 64-bit words. In each of the ways
  // that Streaming names, of which the fastest depends on the processor; kInterleaved reads quarters at the same time.
  // REQUIRES: data aligned to 64 bytes, bytes a multiple of 4096.
  std::uint64_t (*read[kStreamings])(const std::byte* data, std::size_t bytes);
};

KVASIR_DECLARE_KERNELS(PeakKernels, peak)

}  // namespace kvasir::kernel
