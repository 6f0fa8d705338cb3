// Every weight format on every instruction set: packing keeps the values, products agree with double precision, and a
// column computed alone, in a batch, by any panel split has the same bits.
#include "kernel/matmul.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "base/gaussian.hpp"
#include "kernel/streaming.hpp"
#include "simd/bf16_products.hpp"
#include "simd/half.hpp"
#include "simd/isa_fixture.hpp"
#include "tensor/buffer.hpp"
#include "weights/quant.hpp"

namespace kvasir::kernel {
namespace {

using weights::Quant;

struct Packed {
  std::vector<float> values;  // (rows, k): what the file's rows dequantise to
  tensor::Buffer panels;
  std::int64_t rows, k;
};

// Some rows of a quantised matrix, which repeat: a search for the nearest vectors of a grid takes its time.
constexpr std::int64_t kDistinctRows = 23;

// Of all formats and lengths; the test's instruction sets differ in the address of `quant`.
const std::vector<std::byte>& distinct_rows(const Quant& quant, std::int64_t k, unsigned seed) {
  static std::map<std::tuple<const Quant*, std::int64_t, unsigned>, std::vector<std::byte>> made;
  std::vector<std::byte>& file = made[{&quant, k, seed}];
  if (file.empty()) {
    const auto source = gaussian(static_cast<std::size_t>(kDistinctRows * k), seed);
    file.resize(static_cast<std::size_t>(kDistinctRows * k / quant.block * quant.block_bytes));
    quant.quantise(source.data(), file.data(), kDistinctRows * k);
  }
  return file;
}

// A length of rows: of super-blocks, of unquantised weights, or whole blocks of at least `k` elements.
std::int64_t length(const Quant& quant, std::int64_t super, std::int64_t plain, std::int64_t k) {
  return quant.block == 256 ? super : quant.block == 1 ? plain : (k + quant.block - 1) / quant.block * quant.block;
}

Packed pack(const Quant& quant, std::int64_t rows, std::int64_t k, unsigned seed) {
  Packed p;
  p.rows = rows;
  p.k = k;
  const std::int64_t row_bytes = k / quant.block * quant.block_bytes;
  const std::vector<std::byte>& file = distinct_rows(quant, k, seed);
  const auto row_of = [&](std::int64_t r) { return &file[static_cast<std::size_t>(r % kDistinctRows * row_bytes)]; };
  p.values.resize(static_cast<std::size_t>(rows * k));
  for (std::int64_t r = 0; r < rows; ++r) quant.dequantise(row_of(r), &p.values[static_cast<std::size_t>(r * k)], k);
  const std::int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  const std::int64_t bytes = quant.format().panel_bytes(k);
  p.panels = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(panels * bytes));
  for (std::int64_t i = 0; i < panels; ++i) {
    const std::byte* row[kPanelRows];
    for (int r = 0; r < kPanelRows; ++r) row[r] = i * kPanelRows + r < rows ? row_of(i * kPanelRows + r) : nullptr;
    quant.format().pack(row, k, p.panels.data() + i * bytes);
  }
  return p;
}

std::vector<float> multiply(const Quant& quant, const Packed& p, const std::vector<float>& x, std::int64_t n,
                            std::int64_t split) {
  const ActivationKind kind = quant.format().activation;
  tensor::Buffer prepared(tensor::Tag::kScratch, static_cast<std::size_t>(n * activation_bytes(kind, p.k)));
  const Activations a{kind, prepared.data(), n, p.k};
  activation().prepare(a, 0, n, x.data(), p.k, {0, p.k});
  std::vector<float> out(static_cast<std::size_t>(n * p.rows), NAN);
  const std::int64_t panels = (p.rows + kPanelRows - 1) / kPanelRows;
  for (std::int64_t first = 0; first < panels; first += split)
    quant.format().matmul(
        {p.panels.data(), p.k, p.rows, first, std::min(first + split, panels), &a, out.data(), p.rows});
  return out;
}

// Relative L2 error of products: of activations in 8 bits per block of 32, of both factors in bf16, of float sums only.
double rounding(ActivationKind kind) {
  return kind == ActivationKind::kInt8 ? 0.012 : kind == ActivationKind::kBf16 ? 0.0025 : 1e-6;
}

class EveryIsa : public simd::IsaTest {};

TEST_P(EveryIsa, PackingKeepsTheValues) {
  for (const auto& [name, quant] : weights::quants()) {
    const std::int64_t k = length(*quant, 512, 97, 65);
    const Packed p = pack(*quant, 37, k, 1);
    std::vector<float> row(static_cast<std::size_t>(k));
    for (std::int64_t r = 0; r < p.rows; ++r) {
      quant->format().unpack_row(p.panels.data() + r / kPanelRows * quant->format().panel_bytes(k),
                                 static_cast<int>(r % kPanelRows), k, row.data());
      for (std::int64_t i = 0; i < k; ++i) {
        const float want = p.values[static_cast<std::size_t>(r * k + i)];
        ASSERT_EQ(row[static_cast<std::size_t>(i)], want) << name << " row " << r << " element " << i;
      }
    }
  }
}

TEST_P(EveryIsa, ProductsAgreeWithDouble) {
  for (const auto& [name, quant] : weights::quants()) {
    for (std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 23, 64, 65, 67}) {
      for (std::int64_t rows : {1, 16, 33, 60, 75, 100}) {
        const std::int64_t k = length(*quant, 768, 161, 129);
        const Packed p = pack(*quant, rows, k, 2);
        const auto x = gaussian(static_cast<std::size_t>(n * k), 3);
        const auto out = multiply(*quant, p, x, n, 1000);
        double error = 0, norm = 0;
        for (std::int64_t c = 0; c < n; ++c)
          for (std::int64_t r = 0; r < rows; ++r) {
            double want = 0, ww = 0, xx = 0;
            for (std::int64_t i = 0; i < k; ++i) {
              const double wi = p.values[static_cast<std::size_t>(r * k + i)];
              const double xi = x[static_cast<std::size_t>(c * k + i)];
              want += wi * xi;
              ww += wi * wi;
              xx += xi * xi;
            }
            const double got = static_cast<double>(out[static_cast<std::size_t>(c * rows + r)]);
            error += (got - want) * (got - want);
            norm += ww * xx;
          }
        ASSERT_LT(std::sqrt(error / norm), rounding(quant->format().activation))
            << name << " n " << n << " rows " << rows;
      }
    }
  }
}

// Activations that their 8-bit blocks, or bf16, represent exactly leave nothing but the rounding of float sums.
TEST_P(EveryIsa, RepresentableActivationsAreExact) {
  for (const auto& [name, quant] : weights::quants()) {
    const bool bf16 = quant->format().activation == ActivationKind::kBf16;
    for (std::int64_t n : {1, 4, 13, 70}) {
      const std::int64_t k = 512, rows = 50;
      const Packed p = pack(*quant, rows, k, 6);
      std::mt19937 rng(7);
      std::vector<float> x(static_cast<std::size_t>(n * k));
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = i % 32 == 5 ? 127.0f : static_cast<float>(static_cast<int>(rng() % 255) - 127);
      const auto out = multiply(*quant, p, x, n, 2);
      for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t r = 0; r < rows; ++r) {
          double want = 0, size = 0;
          for (std::int64_t i = 0; i < k; ++i) {
            const float w = p.values[static_cast<std::size_t>(r * k + i)];
            const double term = static_cast<double>(bf16 ? simd::bf16_to_f32(simd::f32_to_bf16(w)) : w) *
                                static_cast<double>(x[static_cast<std::size_t>(c * k + i)]);
            want += term;
            size += std::fabs(term);
          }
          ASSERT_NEAR(out[static_cast<std::size_t>(c * rows + r)], want, 1e-5 * size)
              << name << " column " << c << " row " << r;
        }
    }
  }
}

TEST_P(EveryIsa, AColumnDoesNotDependOnItsNeighbours) {
  for (const auto& [name, quant] : weights::quants()) {
    // More columns and, of unquantised weights, more of K than kernels take at a time.
    const std::int64_t k = length(*quant, 512, 1057, 193), rows = 120, n = 331;
    const Packed p = pack(*quant, rows, k, 4);
    const auto x = gaussian(static_cast<std::size_t>(n * k), 5);
    const auto whole = multiply(*quant, p, x, n, 1000);
    for (std::int64_t split : {1, 3, 5})
      ASSERT_EQ(whole, multiply(*quant, p, x, n, split)) << name << " split " << split;
    for (std::int64_t batch : {1, 2, 4, 7, 66, 258}) {
      for (std::int64_t first = 0; first + batch <= n; first += 33) {
        const std::vector<float> part(x.begin() + first * k, x.begin() + (first + batch) * k);
        const auto out = multiply(*quant, p, part, batch, 1000);
        ASSERT_EQ(0,
                  std::memcmp(out.data(), &whole[static_cast<std::size_t>(first * rows)], out.size() * sizeof(float)))
            << name << " batch " << batch << " at " << first;
      }
    }
  }
}

TEST_P(EveryIsa, FactorsMultiplyRows) {
  int formats = 0;
  for (const auto& [name, quant] : weights::quants()) {
    const PanelFormat& format = quant->format();
    if (!format.set_factor) continue;
    ++formats;
    const std::int64_t k = length(*quant, 512, 97, 193), rows = 60;
    Packed p = pack(*quant, rows, k, 11);
    for (std::int64_t n : {1, 3, 9, 70}) {
      const auto x = gaussian(static_cast<std::size_t>(n * k), 12);
      const auto factor = [](std::int64_t panel) { return 0.37f + static_cast<float>(panel); };
      const auto factors = [&](auto f) {
        for (std::int64_t i = 0; i < 4; ++i) format.set_factor(p.panels.data() + i * format.panel_bytes(k), k, f(i));
      };
      factors([](std::int64_t) { return 1.0f; });
      auto want = multiply(*quant, p, x, n, 2);
      for (std::int64_t i = 0; i < n * rows; ++i) want[static_cast<std::size_t>(i)] *= factor(i % rows / kPanelRows);
      factors(factor);
      EXPECT_EQ(want, multiply(*quant, p, x, n, 2)) << name << " columns " << n;
    }
    std::vector<float> row(static_cast<std::size_t>(k));
    format.unpack_row(p.panels.data() + format.panel_bytes(k), 5, k, row.data());
    for (std::size_t i = 0; i < row.size(); ++i)
      ASSERT_EQ(row[i], p.values[static_cast<std::size_t>(21 * k) + i] * 1.37f) << name << " element " << i;
  }
  EXPECT_GE(formats, 1);
}

TEST_P(EveryIsa, TheWayOfReadingDoesNotShow) {
  const Streaming usual = streaming();
  for (const auto& [name, quant] : weights::quants()) {
    // Eleven panels: more than are read at a time, and some left over. Of the shorter rows 6 KB are several panels.
    for (const std::int64_t k : {256, 1536}) {
      const std::int64_t rows = 170;
      const Packed p = pack(*quant, rows, k, 9);
      for (std::int64_t n : {1, 2, 3, 4, 9}) {
        const auto x = gaussian(static_cast<std::size_t>(n * k), 10);
        force(Streaming::kPlain);
        const auto plain = multiply(*quant, p, x, n, 1000);
        for (const Streaming way : {Streaming::kInterleaved, Streaming::kAhead}) {
          force(way);
          EXPECT_EQ(plain, multiply(*quant, p, x, n, 1000)) << name << " k " << k << " columns " << n;
        }
        force(usual);
      }
    }
  }
}

// Columns are prepared side by side where there are enough of them: the bytes are those of each alone, also beside
// columns of zeros, of numbers whose reciprocals overflow, and of what is no number.
TEST_P(EveryIsa, PreparedBytesDoNotDependOnTheOtherColumns) {
  constexpr std::int64_t k = 224, n = 150;
  const std::int64_t block = 5 * 32;  // which of a column's blocks is special
  for (const bool finite : {true, false}) {
    auto x = gaussian(static_cast<std::size_t>(n * k), 8);
    const auto fill = [&](std::int64_t column, float value) { std::fill_n(x.begin() + column * k + block, 32, value); };
    fill(3, 0.0f);
    fill(64, 1e-39f);
    fill(147, -2e-36f);
    fill(130, 3e38f);
    if (!finite) {
      x[20 * k + 77] = std::numeric_limits<float>::quiet_NaN();
      x[149 * k] = -std::numeric_limits<float>::infinity();
    }
    const auto prepared = [&](std::int64_t piece) {
      const auto size = static_cast<std::size_t>(n * activation_bytes(ActivationKind::kInt8, k));
      tensor::Buffer to(tensor::Tag::kScratch, size);
      const Activations a{ActivationKind::kInt8, to.data(), n, k};
      for (std::int64_t c = 0; c < n; c += piece)
        activation().prepare(a, c, std::min(c + piece, n), x.data() + c * k, k, {0, k});
      return std::vector<std::byte>(to.data(), to.data() + size);
    };
    const auto alone = prepared(1);
    for (const std::int64_t piece : {5, 16, 21, 48, 64, 150})
      ASSERT_EQ(alone, prepared(piece)) << "pieces of " << piece << (finite ? "" : ", not all finite");
  }
}

// A column prepared in parts of its elements has the bytes it has prepared at once, in every form and beside others.
TEST_P(EveryIsa, PreparedBytesDoNotDependOnTheParts) {
  for (const ActivationKind kind : {ActivationKind::kInt8, ActivationKind::kBf16, ActivationKind::kF32}) {
    if (kind == ActivationKind::kBf16 && !simd::multiplies_bf16(static_cast<simd::Isa>(GetParam()))) continue;
    for (const std::int64_t n : {1, 3, 5, 70}) {
      const std::int64_t k = kind == ActivationKind::kInt8 ? 352 : 347;
      const auto x = gaussian(static_cast<std::size_t>(n * k), 9);
      const auto prepared = [&](std::int64_t part) {
        const auto size = static_cast<std::size_t>(n * activation_bytes(kind, k));
        tensor::Buffer to(tensor::Tag::kScratch, size);
        std::memset(to.data(), 0x5a, size);  // the last sums are not made for few columns
        const Activations a{kind, to.data(), n, k};
        for (std::int64_t e = 0; e < k; e += part)
          activation().prepare(a, 0, n, x.data() + e, k, {e, std::min(e + part, k)});
        return std::vector<std::byte>(to.data(), to.data() + size);
      };
      const auto whole = prepared(k);
      for (const std::int64_t part : {32, 64, 96, 224})
        ASSERT_EQ(whole, prepared(part)) << "kind " << static_cast<int>(kind) << ", " << n << " columns, parts of "
                                         << part;
    }
  }
}

// Extreme codes and activations: every partial sum of the narrowest instruction set must stay exact.
TEST_P(EveryIsa, ExtremesAgreeWithTheScalarPath) {
  const auto isa = static_cast<simd::Isa>(GetParam());
  std::size_t index = 0;
  for (const auto& [name, quant] : weights::quants()) {
    const float tolerance =
        quant->format().activation == ActivationKind::kBf16 ? 0.004f : 1e-6f;  // all weights are equal
    const std::int64_t k = 256, rows = 16, n = 6;
    std::vector<float> x(static_cast<std::size_t>(n * k));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = (i / 3) % 2 ? -1.0f : 1.0f;
    std::vector<std::byte> block_bytes(static_cast<std::size_t>(rows * k / quant->block * quant->block_bytes));
    for (int pattern : {0x00, 0xff, 0x80, 0x7f, 0x3c}) {
      std::fill(block_bytes.begin(), block_bytes.end(), static_cast<std::byte>(pattern));
      std::vector<float> values(static_cast<std::size_t>(k));
      const std::byte* row[kPanelRows];
      for (int r = 0; r < kPanelRows; ++r)
        row[r] = &block_bytes[static_cast<std::size_t>(r * k / quant->block * quant->block_bytes)];
      quant->dequantise(row[0], values.data(), k);
      bool finite = true;
      for (float v : values) finite = finite && std::isfinite(v) && std::fabs(v) < 1e30f;
      if (!finite) continue;
      const auto run = [&](const Quant& q, std::int64_t columns) {
        Packed p;
        p.rows = rows;
        p.k = k;
        p.panels = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(q.format().panel_bytes(k)));
        q.format().pack(row, k, p.panels.data());
        return multiply(q, p, x, columns, 1);
      };
      for (std::int64_t columns : {std::int64_t{1}, n}) {
        const auto got = run(*quant, columns);
        simd::force(simd::Isa::kScalar);
        const auto want = run(*weights::quants()[index].value, columns);
        simd::force(isa);
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want[i], tolerance * std::fabs(want[i])) << name << " pattern " << pattern;
      }
    }
    ++index;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, EveryIsa, ::testing::Range(0, simd::kIsaCount),
                         [](const auto& p) { return std::string(simd::name(static_cast<simd::Isa>(p.param))); });

}  // namespace
}  // namespace kvasir::kernel
