#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kv/families/packed/layout.hpp"
#include "kv/families/packed/packed_fixture.hpp"
#include "simd/isa_fixture.hpp"

namespace kvasir::kv {
namespace {

using simd::on_every_isa;

std::size_t size(int n) { return static_cast<std::size_t>(n); }

// The layout as packed_layout.hpp states it, one code at a time.
int code_at(const std::byte* matrix, int bits, int depth_count, int lane, int depth) {
  const std::byte* unit = matrix + size(lane / 16) * packed_panel_bytes(bits, depth_count) +
                          size(depth / 16) * size(packed_unit_bytes(bits));
  const int byte = 4 * (lane % 16) + depth % 4;
  const int j = depth % 16 / 4;
  const auto field = [&](int offset, int shift, int width) {
    return std::to_integer<int>(unit[offset]) >> shift & ((1 << width) - 1);
  };
  const int second = byte / 32;
  switch (bits) {
    case 8:
      return field(64 * j + byte, 0, 8) ^ 128;
    case 4:
      return field(64 * (j / 2) + byte, 4 * (j % 2), 4);
    case 2:
      return field(byte, 2 * j, 2);
    case 1:
      return field(byte % 32, 4 * second + j, 1);
    case 3:
      if (j < 2) return field(byte, 4 * j, 3);
      return field(64 + byte % 32, 2 * second + 4 * (j - 2), 2) | field(byte, j == 2 ? 3 : 7, 1) << 2;
    default:
      if (j < 2) return field(64 * j + byte, 0, 5);
      return field(128 + byte % 32, 4 * second + 2 * (j - 2), 2) | field(64 * (j - 2) + byte, 5, 3) << 2;
  }
}

struct Matrix {
  int bits, lanes, depth;
  std::vector<std::uint8_t> codes;  // (depth, lanes)
  std::vector<std::byte> packed;

  int code(int lane, int k) const { return codes[size(k) * size(lanes) + size(lane)]; }
  const std::byte* panel(int i) const { return packed.data() + size(i) * packed_panel_bytes(bits, depth); }
};

enum class Fill { kRandom, kLargest, kSmallest };

Matrix make(int bits, int lanes, int depth, Fill fill, bool transposed) {
  Matrix m{bits, lanes, depth, std::vector<std::uint8_t>(size(lanes * depth)), {}};
  m.packed.assign(packed_bytes(bits, lanes, depth) + 64, std::byte{0xa5});
  std::mt19937 random(static_cast<unsigned>(bits * 1000 + lanes + depth));
  const unsigned mask = (1u << bits) - 1;
  for (auto& c : m.codes)
    c = static_cast<std::uint8_t>(fill == Fill::kRandom ? random() & mask : fill == Fill::kLargest ? mask : 0);
  std::vector<std::uint8_t> given = m.codes;
  if (transposed)
    for (int l = 0; l < lanes; ++l)
      for (int k = 0; k < depth; ++k) given[size(l * depth + k)] = static_cast<std::uint8_t>(m.code(l, k));
  packed_test().pack(bits, transposed, given.data(), lanes, depth, m.packed.data());
  return m;
}

TEST(Packed, BytesAreThoseOfTheCodes) {
  for (int bits : kTestWidths) {
    EXPECT_TRUE(packed_width(bits));
    for (int lanes : {16, 80, 112, 128})
      for (int depth : {16, 80, 112, 256})
        EXPECT_EQ(packed_bytes(bits, lanes, depth) * 8, size(bits) * size(lanes) * size(depth));
  }
  for (int bits : {0, 6, 7, 9}) EXPECT_FALSE(packed_width(bits));
}

TEST(Packed, LayoutIsTheStatedOne) {
  on_every_isa([] {
    for (int bits : kTestWidths)
      for (int lanes : {16, 80, 128})
        for (int depth : {16, 112, 128, 320})
          for (bool transposed : {false, true}) {
            SCOPED_TRACE(testing::Message() << bits << " bits, " << lanes << " x " << depth << " " << transposed);
            const Matrix m = make(bits, lanes, depth, Fill::kRandom, transposed);
            for (int l = 0; l < lanes; ++l)
              for (int k = 0; k < depth; ++k)
                ASSERT_EQ(code_at(m.packed.data(), bits, depth, l, k), m.code(l, k)) << l << " " << k;
            for (std::size_t i = packed_bytes(bits, lanes, depth); i < m.packed.size(); ++i)
              ASSERT_EQ(m.packed[i], std::byte{0xa5}) << "written past the end";
          }
  });
}

// 32 values 0 .. largest, both ends present among the first two.
std::vector<std::uint8_t> table_of(int largest) {
  std::vector<std::uint8_t> t(32);
  for (int i = 0; i < 32; ++i) t[size(i)] = static_cast<std::uint8_t>(i == 0 ? largest : i * 37 % (largest + 1));
  t[1] = 0;
  t[2] = static_cast<std::uint8_t>(largest);
  return t;
}

int value_of(const Matrix& m, int map, const std::vector<std::uint8_t>& table, int lane, int k) {
  const int code = m.code(lane, k);
  return map > 0 ? table[size(code)] : m.bits == 8 ? code - 128 : code;
}

// All panels, rows and some ranges of depth of one matrix against loops.
void expect_dots(const Matrix& m, int map, const std::vector<std::int8_t>& x, int stride) {
  const std::vector<std::uint8_t> table = table_of(kTestLargest[map]);
  const int n = m.depth;
  const int ranges[][2] = {{0, n},  {0, 16}, {n - 16, n}, {n / 32 * 16, n}, {n >= 48 ? 16 : 0, n >= 48 ? 48 : n},
                           {16, 16}};
  for (const auto& [begin, end] : ranges)
    for (int g = 1; g <= packed_test().max_rows; ++g)
      for (int p = 0; p < m.lanes / 16; ++p) {
        std::int32_t sums[8];
        for (int r = 0; r < g; ++r) sums[r] = packed_test().sum(x.data() + r * stride + begin, end - begin);
        std::int32_t out[8 * 16];
        packed_test().dots(m.bits, map, table.data(), m.panel(p), begin, end, x.data(), stride, sums, g, out);
        for (int r = 0; r < g; ++r)
          for (int l = 0; l < 16; ++l) {
            std::int32_t expected = 0;
            for (int k = begin; k < end; ++k)
              expected += x[size(r * stride + k)] * value_of(m, map, table, 16 * p + l, k);
            ASSERT_EQ(out[16 * r + l], expected)
                << "[" << begin << ", " << end << ") row " << r << " of " << g << " panel " << p << " lane " << l;
          }
      }
}

TEST(Packed, DotsAreExact) {
  on_every_isa([] {
    const std::pair<int, int> shapes[] = {{16, 16}, {80, 128}, {128, 80}, {112, 112}, {32, 512}};
    for (int bits : kTestWidths)
      for (int map = 0; map < (bits == 8 ? 1 : kTestMaps); ++map)
        for (auto [lanes, depth] : shapes) {
          SCOPED_TRACE(testing::Message() << bits << " bits, map " << map << ", " << lanes << " x " << depth);
          const Matrix m = make(bits, lanes, depth, Fill::kRandom, false);
          const int stride = depth + 16;
          std::mt19937 random(7);
          std::vector<std::int8_t> x(size(8 * stride));
          for (auto& v : x) v = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
          expect_dots(m, map, x, stride);
          if (testing::Test::HasFatalFailure()) return;
        }
  });
}

// The largest products there are, all of one sign: nothing may saturate or wrap.
TEST(Packed, ExtremesAreExact) {
  on_every_isa([] {
    for (int bits : kTestWidths)
      for (int map = 0; map < (bits == 8 ? 1 : kTestMaps); ++map)
        for (Fill fill : {Fill::kLargest, Fill::kSmallest})
          for (int v : {127, -127}) {
            SCOPED_TRACE(testing::Message() << bits << " bits, map " << map << ", x " << v);
            // Tables have their largest value at code 0.
            const Matrix m = make(bits, 32, 512, fill, false);
            expect_dots(m, map, std::vector<std::int8_t>(size(8 * 512), static_cast<std::int8_t>(v)), 512);
            if (testing::Test::HasFatalFailure()) return;
          }
  });
}

TEST(Packed, FloatsAreTheValues) {
  on_every_isa([] {
    for (int bits : kTestWidths)
      for (int map = 0; map < (bits == 8 ? 1 : kTestMaps); ++map) {
        SCOPED_TRACE(testing::Message() << bits << " bits, map " << map);
        const std::vector<std::uint8_t> table = table_of(kTestLargest[map]);
        const Matrix m = make(bits, 80, 112, Fill::kRandom, false);
        const int ranges[][2] = {{0, 112}, {16, 20}, {32, 56}, {96, 108}};
        for (const auto& [begin, end] : ranges)
          for (int p = 0; p < m.lanes / 16; ++p) {
            std::vector<float> out(size(16 * (end - begin) + 1), -1.5f);
            packed_test().floats(bits, map, table.data(), m.panel(p), begin, end, out.data());
            for (int k = begin; k < end; ++k)
              for (int l = 0; l < 16; ++l)
                ASSERT_EQ(out[size(16 * (k - begin) + l)], static_cast<float>(value_of(m, map, table, 16 * p + l, k)));
            ASSERT_EQ(out.back(), -1.5f);
          }
      }
  });
}

TEST(Int8Row, RoundsToNearestEvenOfTheLargest) {
  on_every_isa([] {
    for (int n : {16, 80, 128, 256}) {
      std::mt19937 random(static_cast<unsigned>(n));
      std::normal_distribution<float> normal(0, 3);
      std::vector<float> x(size(n));
      for (auto& v : x) v = normal(random);
      std::vector<std::int8_t> q(size(n) + 1, 99);
      const TestRow row = packed_test().quantize(x.data(), n, q.data());
      float largest = 0;
      for (float v : x) largest = std::max(largest, std::fabs(v));
      EXPECT_EQ(row.scale, largest / 127.0f);
      int sum = 0;
      for (int i = 0; i < n; ++i) {
        EXPECT_EQ(q[size(i)], static_cast<int>(std::nearbyintf(x[size(i)] * (127.0f / largest)))) << i;
        sum += q[size(i)];
      }
      EXPECT_EQ(row.sum, sum);
      EXPECT_EQ(packed_test().sum(q.data(), n), sum);
      EXPECT_EQ(q.back(), 99);
    }
    // Scale 1: the numbers are what is rounded.
    std::vector<float> ties(16, 0.0f);
    const float some[] = {-127.0f, 0.5f, 1.5f, -2.5f, -0.5f, 126.5f};
    std::copy(std::begin(some), std::end(some), ties.begin());
    std::int8_t q[16];
    EXPECT_EQ(packed_test().quantize(ties.data(), 16, q).scale, 1.0f);
    const int expected[] = {-127, 0, 2, -2, 0, 126};
    for (int i = 0; i < 6; ++i) EXPECT_EQ(q[i], expected[i]);
  });
}

TEST(Int8Row, ZeroTinyHugeAndNotFinite) {
  on_every_isa([] {
    const auto row_of = [](float v) {
      std::vector<float> x(32, 0.0f);
      x[17] = v;
      std::vector<std::int8_t> q(32, 99);
      const TestRow row = packed_test().quantize(x.data(), 32, q.data());
      for (int i = 0; i < 32; ++i) EXPECT_EQ(q[size(i)], i == 17 ? row.sum : 0);
      return std::pair<float, int>(row.scale, q[17]);
    };
    EXPECT_EQ(row_of(0.0f), std::pair(0.0f, 0));
    EXPECT_EQ(row_of(1e-40f), std::pair(0.0f, 0));
    EXPECT_EQ(row_of(-3e38f), std::pair(3e38f / 127.0f, -127));
    EXPECT_EQ(row_of(2e-36f), std::pair(2e-36f / 127.0f, 127));
    for (float v : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
      const auto [scale, q] = row_of(v);
      EXPECT_TRUE(std::isnan(scale));
      EXPECT_EQ(q, 0);
    }
  });
}

}  // namespace
}  // namespace kvasir::kv
