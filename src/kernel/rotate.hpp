// Seeded random rotations of a head: they spread every vector's energy evenly over its d coordinates, which then look
// like samples of one Gaussian whatever the head's outlier channels are, so that one scalar quantiser fits all.
//
// R = T S / sqrt(d), where S is a diagonal of random signs and T = C_m (x) H_n for d = m n, n the largest power of two
// in d: H_n the Sylvester-Hadamard matrix within blocks of n consecutive channels, C_m[i][j] = cas(2 pi i j / m) the
// Hartley matrix across the blocks (1 for powers of two). T is symmetric and T T = d I, so R is orthogonal and its
// inverse is S T / sqrt(d). A single channel becomes d coordinates of at most sqrt(2) times the mean size.
//
// All variants and instruction sets give the same bits: scale, butterflies at distances 1, 2, 4 .. n/2, then the
// Hartley sums in increasing order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kernel {

inline constexpr int kMaxRotated = 1024;

// Head sizes that can be rotated: multiples of 16 up to kMaxRotated.
bool can_rotate(int d);

// One rotation as plain bytes: float signs[d], each +-1/sqrt(d), then float C[m][m] when m > 1. Aligned to 4.
// REQUIRES: can_rotate(d).
std::size_t rotation_bytes(int d);
void make_rotation(void* state, int d, std::uint64_t seed);

// The seed of one (layer, KV head, side; 0 for keys, 1 for values): unrelated for different arguments.
std::uint64_t rotation_seed(std::uint64_t seed, int layer, int kv_head, int side);

struct RotateKernels {
  // In place on `rows` rows of d floats, `stride` floats apart: x = R x, x = R^T x.
  void (*forward)(const void* state, int d, int rows, float* x, std::ptrdiff_t stride);
  void (*inverse)(const void* state, int d, int rows, float* x, std::ptrdiff_t stride);
  // The same for vectors that stand in columns: element c of vector t is x[c * stride + t]. REQUIRES: columns is a
  // multiple of 16.
  void (*forward_columns)(const void* state, int d, int columns, float* x, std::ptrdiff_t stride);
  void (*inverse_columns)(const void* state, int d, int columns, float* x, std::ptrdiff_t stride);
};
KVASIR_DECLARE_KERNELS(RotateKernels, rotate)

}  // namespace kvasir::kernel
