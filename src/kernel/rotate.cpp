#include "kernel/rotate.hpp"

#include <cmath>
#include <numbers>

#include "base/check.hpp"
#include "base/splitmix.hpp"

namespace kvasir::kernel {

namespace {

std::size_t odd_part(int d) { return static_cast<std::size_t>(d / (d & -d)); }

}  // namespace

bool can_rotate(int d) { return d > 0 && d <= kMaxRotated && d % 16 == 0; }

std::size_t rotation_bytes(int d) {
  KVASIR_CHECK(can_rotate(d));
  const std::size_t m = odd_part(d);
  return (static_cast<std::size_t>(d) + (m > 1 ? m * m : 0)) * sizeof(float);
}

void make_rotation(void* state, int d, std::uint64_t seed) {
  KVASIR_CHECK(can_rotate(d));
  float* signs = static_cast<float*>(state);
  const auto size = static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
  std::uint64_t bits = 0;
  for (int i = 0; i < d; ++i, bits >>= 1) {
    if (i % 64 == 0) bits = splitmix64(seed);
    signs[i] = bits & 1 ? -size : size;
  }
  const std::size_t m = odd_part(d);
  if (m == 1) return;
  float* c = signs + d;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < m; ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i * j % m) / static_cast<double>(m);
      c[i * m + j] = static_cast<float>(std::cos(angle) + std::sin(angle));
    }
}

std::uint64_t rotation_seed(std::uint64_t seed, int layer, int kv_head, int side) {
  seed = splitmix64(seed);  // else the xor would exchange neighbouring seeds with neighbouring layers
  for (const int part : {layer, kv_head, side}) {
    seed ^= static_cast<std::uint64_t>(part) + 1;
    seed = splitmix64(seed);
  }
  return seed;
}

}  // namespace kvasir::kernel
