// What the rotated codecs' numbers should be.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/test_data_fixture.hpp"
#include "kv/codec_fixture.hpp"
#include "kv/families/lloyd.hpp"
#include "kv/families/rotated/integer_levels.hpp"

namespace kvasir::kv {
namespace {

using namespace codec_fixture;

double decibels(double energy, double error) { return 10 * std::log10(energy / error); }

TEST(IntegerLevels, LoseNextToNothing) {
  const double most[] = {0.002, 0.05, 0.05, 0.2};  // dB
  for (int bits = 2; bits <= 5; ++bits) {
    const IntegerLevels& t = integer_levels(bits);
    const int n = 1 << bits;
    for (int i = 0; i + 1 < n; ++i) EXPECT_LT(t.values[i], t.values[i + 1]);
    for (int i = 0; i < n; ++i) EXPECT_EQ(static_cast<float>(t.values[i] + t.values[n - 1 - i]), 2 * t.offset);
    EXPECT_LE(t.values[n - 1], integer_levels_largest(bits));
    EXPECT_LT(decibels(t.mse, gaussian_lloyd(bits).mse), most[bits - 2]) << bits;
  }
}

TEST(Rotated, BytesAreCodesScalesAndMeans) {
  for (const int bits : {2, 3, 4, 5, 8})
    for (const int d : {64, 80, 128, 256}) {
      const Subject s("rq" + std::to_string(bits), d, Side::kKeys);
      EXPECT_EQ(s.bytes().size(), static_cast<std::size_t>(16 * d * bits + 256 + d));
    }
}

// A head with strong offsets and outliers: after the rotation its distortion is the table's, whatever the head.
TEST(Rotated, DistortionIsTheTablesOnAnyHead) {
  for (const Side side : {Side::kKeys, Side::kValues}) {
    for (const int bits : {2, 3, 4, 5}) {
      double error = 0;
      double energy = 0;
      for (unsigned seed = 0; seed < 20; ++seed) {
        Subject s("rq" + std::to_string(bits), 128, side);
        const auto rows = make_rows(128, seed);
        s.seal(rows, 0);
        const auto back = s.unsealed();
        for (int c = 0; c < 128; ++c) {
          double mean = 0;
          for (int t = 0; t < kPageTokens; ++t) mean += rows[static_cast<std::size_t>(t * 128 + c)] / kPageTokens;
          for (int t = 0; t < kPageTokens; ++t) {
            const auto i = static_cast<std::size_t>(t * 128 + c);
            error += std::pow(rows[i] - back[i], 2);
            energy += std::pow(rows[i] - mean, 2);
          }
        }
      }
      EXPECT_NEAR(decibels(energy, error), decibels(1, gaussian_lloyd(bits).mse), 0.3) << bits;
    }
  }
}

// <q, k^> = slope <q, k> + noise over many pages: least squares shrinks, the unbiased scale does not.
TEST(Rotated, UnbiasedScaleHasSlopeOne) {
  for (const bool unbiased : {false, true}) {
    double xy = 0;
    double xx = 0;
    for (unsigned seed = 0; seed < 60; ++seed) {
      Subject s(unbiased ? "rq2:unbiased" : "rq2", 128, Side::kKeys);
      const auto rows = gaussian(static_cast<std::size_t>(kPageTokens * 128), seed);
      s.seal(rows, 0);
      const auto back = s.unsealed();
      for (int t = 0; t < kPageTokens; ++t) {  // the row itself as query: E <k, k^> / <k, k> is the slope
        xy += dot(&rows[static_cast<std::size_t>(t * 128)], &back[static_cast<std::size_t>(t * 128)], 128);
        xx += dot(&rows[static_cast<std::size_t>(t * 128)], &rows[static_cast<std::size_t>(t * 128)], 128);
      }
    }
    EXPECT_NEAR(xy / xx, unbiased ? 1.0 : 1 - gaussian_lloyd(2).mse, 0.01);
  }
}

TEST(Rotated, HeadsHaveTheirOwnRotations) {
  const Subject a("rq4", 64, Side::kKeys);
  const Subject b("rq4", 64, Side::kValues);
  std::vector<std::byte> other(a.state->size());
  a.codec->init_state(other.data(), 64, Side::kKeys, 2, 0);
  EXPECT_NE(std::memcmp(a.state->data(), b.state->data(), other.size()), 0);
  EXPECT_NE(std::memcmp(a.state->data(), other.data(), other.size()), 0);
}

// Keys and values of Qwen3.5-0.8B: u32 magic, layer, heads, tokens, dim; then float32 [head][token][dim].
TEST(Rotated, RealKeysAndValues) {
  const std::filesystem::path folder = fixture::test_data("kv");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data beside the checkout";
  struct Want {
    int bits;
    double k, v;
  };
  for (const Want want : {Want{2, 12.5, 11.27}, Want{3, 17.9, 16.59}, Want{4, 23.5, 22.25}}) {
    for (const Side side : {Side::kKeys, Side::kValues}) {
      double error = 0;
      double energy = 0;
      for (const int layer : {3, 7, 11, 15}) {
        const std::string name =
            "qwen35_layer" + std::to_string(layer) + (side == Side::kKeys ? "_keys.bin" : "_values.bin");
        std::ifstream file(folder / name, std::ios::binary);
        std::uint32_t header[5];
        file.read(reinterpret_cast<char*>(header), sizeof(header));
        ASSERT_TRUE(file && header[0] == 0x544B5651u && header[4] == 256) << name;
        const int tokens = static_cast<int>(header[3]);
        for (std::uint32_t h = 0; h < header[2]; ++h) {
          std::vector<float> rows(static_cast<std::size_t>(kPageTokens) * 256);
          const int skip = kPageTokens - tokens;
          float* data = rows.data() + skip * 256;
          file.read(reinterpret_cast<char*>(data), static_cast<std::streamsize>(tokens) * 256 * 4);
          ASSERT_TRUE(file) << name;
          Subject s("rq" + std::to_string(want.bits), 256, side);
          s.seal(rows, skip);
          const auto back = s.unsealed();
          for (std::size_t i = static_cast<std::size_t>(skip) * 256; i < rows.size(); ++i) {
            error += std::pow(rows[i] - back[i], 2);
            energy += std::pow(rows[i], 2);
          }
        }
      }
      EXPECT_NEAR(decibels(energy, error), side == Side::kKeys ? want.k : want.v, 0.3) << want.bits;
    }
  }
}

}  // namespace
}  // namespace kvasir::kv
