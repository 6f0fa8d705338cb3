// Products in bf16 have one order of additions, TDPBF16PS's: written out here, and the bits of every instruction set,
// of tiles too (emulated where the processor has none), for every type of weights.
#include "kernel/rounded_products.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "kernel/matmul.hpp"
#include "simd/bf16_products.hpp"
#include "simd/emulated_amx_fixture.hpp"
#include "simd/every_isa.hpp"
#include "simd/flush_subnormals.hpp"
#include "simd/half.hpp"
#include "weights/quant.hpp"

namespace kvasir::kernel {
namespace {

using weights::Quant;

// f() on every set that can be used, and on the one with tiles where they can be emulated.
template <class F>
void on_every_set(const F& f) {
  const simd::KeepIsa keep;
  for (const simd::Isa isa : simd::kIsas) {
    if (!simd::supported(isa)) continue;
    simd::force(isa);
    f();
  }
#if defined(__x86_64__) && defined(__linux__)
  if (simd::UsableTiles::by_processor() || !simd::emulated_amx::possible()) return;
  const simd::UsableTiles usable;
  simd::force(simd::Isa::kAvx512Amx);
  f();
#endif
}

std::vector<float> rounded_noise(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

// Rows of `quant` in its file's form.
std::vector<std::byte> rows_of(const Quant& quant, const std::vector<float>& values) {
  std::vector<std::byte> file(values.size() / static_cast<std::size_t>(quant.block) *
                              static_cast<std::size_t>(quant.block_bytes));
  quant.quantise(values.data(), file.data(), static_cast<std::int64_t>(values.size()));
  return file;
}

std::vector<std::byte> panels_of(const PanelFormat& format, const std::vector<std::byte>& file, std::int64_t rows,
                                 std::int64_t k) {
  const std::int64_t count = (rows + kPanelRows - 1) / kPanelRows, row_bytes = std::ssize(file) / rows;
  std::vector<std::byte> panels(static_cast<std::size_t>(count * format.panel_bytes(k)));
  for (std::int64_t p = 0; p < count; ++p) {
    const std::byte* row[kPanelRows];
    for (std::int64_t r = 0; r < kPanelRows; ++r)
      row[r] = p * kPanelRows + r < rows ? file.data() + (p * kPanelRows + r) * row_bytes : nullptr;
    format.pack(row, k, panels.data() + p * format.panel_bytes(k));
  }
  return panels;
}

// (n, rows) of the set in use; `split`: panels of a call.
std::vector<float> product(const PanelFormat& format, const std::vector<std::byte>& panels, std::int64_t rows,
                           std::int64_t k, std::span<const float> x, std::int64_t split = 1000) {
  const std::int64_t n = std::ssize(x) / k, count = (rows + kPanelRows - 1) / kPanelRows;
  std::vector<std::byte> prepared(static_cast<std::size_t>(n * activation_bytes(format.activation, k)), std::byte{85});
  const Activations a{format.activation, prepared.data(), n, k};
  const std::int64_t half = k / 64 * 32;  // in two parts, as hidden rows are
  if (half > 0) activation().prepare(a, 0, n, x.data(), k, {0, half});
  activation().prepare(a, 0, n, x.data() + half, k, {half, k});
  std::vector<float> out(static_cast<std::size_t>(n * rows), -7.0f);
  for (std::int64_t p = 0; p < count; p += split)
    format.matmul({panels.data(), k, rows, p, std::min(p + split, count), &a, out.data(), rows});
  return out;
}

float to_bf16_and_back(float x) { return simd::bf16_to_f32(simd::f32_to_bf16(x)); }
// As DAZ and FTZ do.
float or_zero(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }

// The order of rounded_products.hpp, literally.
float in_order(const float* w, const float* x, std::int64_t k) {
  float sum = 0;
  for (std::int64_t unit = 0; unit < k; unit += 32) {
    float part[2] = {0, 0};
    for (std::int64_t i = unit; i < std::min(unit + 32, k); ++i)
      part[i % 2] = or_zero(std::fma(or_zero(to_bf16_and_back(w[i])), or_zero(to_bf16_and_back(x[i])), part[i % 2]));
    sum = or_zero(sum + or_zero(part[0] + part[1]));
  }
  return sum;
}

std::int64_t whole_blocks(const Quant& quant, std::int64_t k) {
  return (k + quant.block - 1) / quant.block * quant.block;
}

TEST(RoundedProducts, EveryTypeAndSetAddsInTheSameOrder) {
  int types = 0;
  for (const auto& [name, quant] : weights::quants()) {
    if (!quant->rounded) continue;
    ++types;
    for (const std::int64_t wanted : {33, 545}) {  // more than is dequantised at a time; of super-blocks three
      const std::int64_t k = whole_blocks(*quant, wanted), rows = 53, n = 53;
      const std::vector<float> values = rounded_noise(rows * k, 3), x = rounded_noise(n * k, 4);
      const std::vector<std::byte> file = rows_of(*quant, values);
      std::vector<float> w(values.size()), want;
      quant->dequantise(file.data(), w.data(), rows * k);
      for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t r = 0; r < rows; ++r)
          want.push_back(in_order(&w[static_cast<std::size_t>(r * k)], &x[static_cast<std::size_t>(c * k)], k));
      on_every_set([&] {
        SCOPED_TRACE(std::string(name) + " " + std::string(simd::name(simd::active())));
        const Quant& here = *find(weights::quants(), name);
        const std::vector<std::byte> panels = panels_of(*here.rounded, file, rows, k);
        // Unpacked values are those of single rows.
        std::vector<float> row(static_cast<std::size_t>(k)), all(static_cast<std::size_t>(k * kPanelRows));
        here.panel->unpack(panels.data(), k, 0, k, all.data());
        for (int r = 0; r < kPanelRows; ++r) {
          here.rounded->unpack_row(panels.data(), r, k, row.data());
          for (std::int64_t i = 0; i < k; ++i)
            ASSERT_EQ(all[static_cast<std::size_t>(i * kPanelRows + r)], row[static_cast<std::size_t>(i)])
                << r << " " << i;
        }
        const std::vector<float> got = product(*here.rounded, panels, rows, k, x);
        for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "element " << i << " k " << k;
      });
    }
  }
  EXPECT_GE(types, 30);
}

TEST(RoundedProducts, AColumnHasTheBitsThatItHasAlone) {
  for (const char* name : {"q4_k", "q8_0", "nvfp4", "bf16", "f8_e4m3"}) {
    const Quant* quant = find(weights::quants(), name);
    const std::int64_t k = whole_blocks(*quant, 545), rows = 53, n = 279;
    const std::vector<float> x = rounded_noise(n * k, 6);
    const std::vector<std::byte> file = rows_of(*quant, rounded_noise(rows * k, 5));
    on_every_set([&] {
      const Quant& here = *find(weights::quants(), name);
      const std::vector<std::byte> panels = panels_of(*here.rounded, file, rows, k);
      const std::vector<float> whole = product(*here.rounded, panels, rows, k, x);
      EXPECT_EQ(whole, product(*here.rounded, panels, rows, k, x, 3)) << name;
      for (const std::int64_t batch : {1, 2, 4, 7, 16, 17, 66, 258})
        for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5}, n - batch}) {
          if (first + batch > n) continue;
          const auto part =
              product(*here.rounded, panels, rows, k,
                      std::span(x).subspan(static_cast<std::size_t>(first * k), static_cast<std::size_t>(batch * k)));
          ASSERT_EQ(0, std::memcmp(part.data(), &whole[static_cast<std::size_t>(first * rows)], part.size() * 4))
              << name << " " << simd::name(simd::active()) << " batch " << batch << " at " << first;
        }
    });
  }
}

// More panels than are taken at a time, with one left over, and more columns than have sums at a time.
TEST(RoundedProducts, ManyPanelsAndColumns) {
  const Quant* quant = find(weights::quants(), "q8_0");
  const std::int64_t k = 544, rows = 11 * kPanelRows - 3, n = 530;
  const std::vector<float> values = rounded_noise(rows * k, 12), x = rounded_noise(n * k, 13);
  const std::vector<std::byte> file = rows_of(*quant, values);
  std::vector<float> w(values.size());
  quant->dequantise(file.data(), w.data(), rows * k);
  on_every_set([&] {
    const Quant& here = *find(weights::quants(), "q8_0");
    const std::vector<std::byte> panels = panels_of(*here.rounded, file, rows, k);
    const std::vector<float> got = product(*here.rounded, panels, rows, k, x);
    EXPECT_EQ(got, product(*here.rounded, panels, rows, k, x, 1));
    for (std::int64_t c = 0; c < n; c += c < 500 ? 37 : 1)
      for (std::int64_t r = 0; r < rows; ++r)
        ASSERT_EQ(got[static_cast<std::size_t>(c * rows + r)],
                  in_order(&w[static_cast<std::size_t>(r * k)], &x[static_cast<std::size_t>(c * k)], k))
            << simd::name(simd::active()) << " column " << c << " row " << r;
  });
}

// Numbers at both ends of a float: what is subnormal counts as 0 in operands, products and sums, and the largest sums
// are infinite; what is no number stays none, in its own column and row alone.
TEST(RoundedProducts, EndsOfTheRange) {
  const Quant* quant = find(weights::quants(), "bf16");
  const std::int64_t k = 96, rows = 32, n = 35;
  std::vector<float> w = rounded_noise(rows * k, 7), x = rounded_noise(n * k, 8);
  std::mt19937 random(9);
  for (float& v : w) v = std::ldexp(v, static_cast<int>(random() % 130) - 128);
  for (float& v : x) v = std::ldexp(v, static_cast<int>(random() % 130) - 128);
  for (std::size_t i = 0; i < w.size(); i += 7) w[i] = 1e-39f;
  const auto at = [&](std::int64_t c, std::int64_t i) -> float& { return x[static_cast<std::size_t>(c * k + i)]; };
  for (std::int64_t i = 0; i < k; ++i) at(3, i) = 3e38f, at(4, i) = 0x1p-126f, at(5, i) = -0x1p-140f;
  at(6, 40) = std::nanf(""), at(7, 95) = std::numeric_limits<float>::infinity();
  std::uint32_t all_ones = 0xffffffffu;
  std::memcpy(&at(8, 0), &all_ones, 4);
  const std::vector<std::byte> file = rows_of(*quant, w);
  std::vector<float> kept(w.size());
  quant->dequantise(file.data(), kept.data(), rows * k);
  int sets = 0, zeros = 0;
  on_every_set([&] {
    ++sets;
    const Quant& here = *find(weights::quants(), "bf16");
    const std::vector<float> got = product(*here.rounded, panels_of(*here.rounded, file, rows, k), rows, k, x);
    for (std::int64_t c = 0; c < n; ++c)
      for (std::int64_t r = 0; r < rows; ++r) {
        const float value = got[static_cast<std::size_t>(c * rows + r)];
        const float want = in_order(&kept[static_cast<std::size_t>(r * k)], &at(c, 0), k);
        if (c >= 6 && c <= 8)
          ASSERT_FALSE(std::isfinite(value)) << c;
        else
          ASSERT_TRUE(value == want || (std::isnan(value) && std::isnan(want)))  // of infinities of both signs
              << value << " " << want << " " << simd::name(simd::active()) << " column " << c << " row " << r;
        zeros += c == 5 && value == 0;
      }
  });
  EXPECT_EQ(zeros, sets * rows);
  EXPECT_EQ(1e-39f * 0.5f > 0, true) << "the mode of this thread is what it was";
}

#if defined(__x86_64__) && defined(__linux__)

TEST(RoundedProducts, TilesAreUsedFromSixteenColumnsOn) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const simd::UsableTiles usable;
  const simd::KeepIsa keep;
  simd::force(simd::Isa::kAvx512Amx);
  const Quant& quant = *find(weights::quants(), "q8_0");
  const std::int64_t k = 64, rows = 32;
  const std::vector<std::byte> panels = panels_of(*quant.rounded, rows_of(quant, rounded_noise(rows * k, 1)), rows, k);
  for (const std::int64_t n : {1, 15, 16, 40}) {
    const long before = simd::UsableTiles::executed();
    product(*quant.rounded, panels, rows, k, rounded_noise(n * k, 2));
    if (!simd::UsableTiles::by_processor()) {
      EXPECT_EQ(simd::UsableTiles::executed() > before, n >= 16) << n;
    }
  }
}

TEST(RoundedProducts, OnlyASetThatHasThemUsesTiles) {
  for (const simd::Isa isa : simd::kIsas) EXPECT_TRUE(simd::has_tiles(isa) || !simd::has_bf16_tiles(isa));
}

#endif

}  // namespace
}  // namespace kvasir::kernel
