// What packed_test sees of kv/families/packed/codes.hpp and kv/families/packed/int8_row.hpp: one table per instruction
// set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/isa.hpp"

namespace kvasir::kv {

inline constexpr int kTestWidths[] = {1, 2, 3, 4, 5, 8};
inline constexpr int kTestMaps = 4;                      // codes, then tables
inline constexpr int kTestLargest[] = {0, 31, 63, 127};  // values of table i are 0 .. this

struct TestRow {
  float scale;
  std::int32_t sum;
};

struct PackedTestKernels {
  int max_rows;
  void (*pack)(int bits, bool transposed, const std::uint8_t* codes, int lanes, int depth, std::byte* to);
  // out (g, 16): sums of one panel over [begin, end); x (g, stride), x_sums (g): sums of x over the range
  void (*dots)(int bits, int map, const std::uint8_t* table, const std::byte* panel, int begin, int end,
               const std::int8_t* x, std::ptrdiff_t stride, const std::int32_t* x_sums, int g, std::int32_t* out);
  // out (end - begin, 16)
  void (*floats)(int bits, int map, const std::uint8_t* table, const std::byte* panel, int begin, int end, float* out);
  TestRow (*quantize)(const float* x, int n, std::int8_t* out);
  std::int32_t (*sum)(const std::int8_t* x, int n);
};

KVASIR_DECLARE_KERNELS(PackedTestKernels, packed_test)

}  // namespace kvasir::kv
