// KIVI's arrays on the processor against formulas written out here, and on the first OpenCL device against the
// processor, byte by byte.
#include "device/kivi.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "simd/half.hpp"

namespace kvasir::device {
namespace {

struct KiviRoom {
  kv::KiviArrays a;
  std::vector<std::byte> codes, scales, minima;
  explicit KiviRoom(const kv::KiviArrays& sizes) : a(sizes) {
    const auto h = static_cast<std::size_t>(a.heads);
    codes.assign(h * a.code_bytes(), std::byte{0xaa});
    scales.assign(h * a.scale_bytes(), std::byte{0xaa});
    minima.assign(h * a.scale_bytes(), std::byte{0xaa});
    a.codes = codes.data(), a.scales = scales.data(), a.minima = minima.data();
  }
};

// Numbers of different sizes; ties; groups that are constant, zero (of both signs), tiny or near float16's end.
std::vector<float> kivi_numbers(std::int64_t n, std::uint64_t seed) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t r = splitmix64(seed);
    const float u = static_cast<float>(r & 0xffff) / 32768.0f - 1.0f;
    switch (i / 1000 % 7) {
      case 0:
        x[i] = u * static_cast<float>(1 + i / 64 % 9);
        break;
      case 1:
        x[i] = 0.5f * static_cast<float>(r % 31);
        break;
      case 2:
        x[i] = r % 2 ? 0.0f : -0.0f;
        break;
      case 3:
        x[i] = u * 1e-7f;
        break;
      case 4:
        x[i] = u * 3e4f;
        break;
      case 5:
        x[i] = -1.5f;
        break;
      default:
        x[i] = u * 1e-42f;
    }
  }
  return x;
}

std::vector<kv::KiviArrays> kivi_shapes() {
  std::vector<kv::KiviArrays> all;
  for (const bool values : {false, true})
    for (const int bits : {2, 4, 8})
      for (const std::int64_t group : {4, 32, 64, 128})
        for (const bool wide : {false, true})
          all.push_back({.values = values,
                         .wide = wide,
                         .bits = bits,
                         .group = group,
                         .heads = 3,
                         .tokens = 640,
                         .head_dim = 128});
  all.push_back({.values = true, .bits = 2, .group = 12, .heads = 1, .tokens = 1, .head_dim = 36});
  all.push_back({.bits = 4, .group = 20, .heads = 5, .tokens = 60, .head_dim = 7});
  return all;
}

std::string name_of(const kv::KiviArrays& a) {
  return std::string(a.values ? "values" : "keys") + " bits " + std::to_string(a.bits) + " group " +
         std::to_string(a.group) + (a.wide ? " wide" : "") + " tokens " + std::to_string(a.tokens) + " head_dim " +
         std::to_string(a.head_dim);
}

float kivi_scale(const std::vector<std::byte>& from, std::size_t i, bool wide) {
  if (wide) {
    float f;
    std::memcpy(&f, from.data() + 4 * i, 4);
    return f;
  }
  std::uint16_t h;
  std::memcpy(&h, from.data() + 2 * i, 2);
  return simd::f16_to_f32(h);
}

template <class T>
::testing::AssertionResult same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return ::testing::AssertionFailure() << "number " << i << " differs";
  return ::testing::AssertionSuccess();
}

TEST(KiviArrays, TheProcessorsAreTheFormulas) {
  kv::HostKivi host;
  for (const kv::KiviArrays& sizes : kivi_shapes()) {
    KiviRoom got(sizes);
    const auto count = sizes.heads * static_cast<std::int64_t>(sizes.numbers());
    const std::vector<float> x = kivi_numbers(count, 5);
    host.quantize(x.data(), got.a);
    std::vector<float> back(x.size());
    host.dequantize(got.a, back.data());
    constexpr std::int64_t kRows = 3;
    std::vector<float> a(static_cast<std::size_t>(sizes.heads * kRows * sizes.depth()));
    std::uint64_t seed = 9;
    for (float& f : a) f = static_cast<float>(splitmix64(seed) & 0xffff) / 65536.0f - 0.5f;
    std::vector<float> out(static_cast<std::size_t>(sizes.heads * kRows * sizes.lanes()));
    host.multiply(a.data(), kRows, got.a, out.data());
    const auto at = [&](std::int64_t h, std::int64_t k, std::int64_t l) {
      return static_cast<std::size_t>(h * sizes.tokens * sizes.head_dim +
                                      (sizes.values ? k * sizes.head_dim + l : l * sizes.head_dim + k));
    };
    const int top = (1 << sizes.bits) - 1;
    for (std::int64_t h = 0; h < sizes.heads; ++h)
      for (std::int64_t k = 0; k < sizes.depth(); ++k)
        for (std::int64_t j = 0; j < sizes.groups(); ++j) {
          float low = std::numeric_limits<float>::infinity(), high = -low;
          for (std::int64_t l = j * sizes.group; l < (j + 1) * sizes.group; ++l) {
            low = std::min(low, x[at(h, k, l)]);
            high = std::max(high, x[at(h, k, l)]);
          }
          const auto i = static_cast<std::size_t>((h * sizes.depth() + k) * sizes.groups() + j);
          const float range = (high - low) / static_cast<float>(top);
          const float s = kivi_scale(got.scales, i, sizes.wide), m = kivi_scale(got.minima, i, sizes.wide);
          ASSERT_EQ(sizes.wide ? range : simd::f16_to_f32(simd::f32_to_f16(range)), s) << name_of(sizes);
          ASSERT_EQ(sizes.wide ? low : simd::f16_to_f32(simd::f32_to_f16(low)), m) << name_of(sizes);
          for (std::int64_t l = j * sizes.group; l < (j + 1) * sizes.group; ++l) {
            const std::int64_t first = (h * sizes.depth() + k) * sizes.lanes() + l;
            const int byte = static_cast<int>(got.codes[static_cast<std::size_t>(first * sizes.bits / 8)]);
            const int code = byte >> (first * sizes.bits % 8) & top;
            const float y = x[at(h, k, l)];
            const int expected =
                s > 0.0f ? static_cast<int>(std::clamp(std::nearbyint((y - m) / s), 0.0f, static_cast<float>(top))) : 0;
            ASSERT_EQ(expected, code) << name_of(sizes) << " lane " << l;
            ASSERT_EQ(static_cast<float>(code) * s + m, back[at(h, k, l)]) << name_of(sizes);
          }
        }
    for (std::int64_t h = 0; h < sizes.heads; ++h)
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t l = 0; l < sizes.lanes(); l += 7) {
          double sum = 0, size = 0;
          for (std::int64_t k = 0; k < sizes.depth(); ++k) {
            const double p = static_cast<double>(a[static_cast<std::size_t>((h * kRows + r) * sizes.depth() + k)]) *
                             static_cast<double>(back[at(h, k, l)]);
            sum += p;
            size += std::fabs(p);
          }
          ASSERT_NEAR(sum, static_cast<double>(out[static_cast<std::size_t>((h * kRows + r) * sizes.lanes() + l)]),
                      size * 2e-5 + 1e-43)
              << name_of(sizes);
        }
  }
}

TEST(KiviArrays, BadInputIsNamed) {
  kv::HostKivi host;
  const kv::KiviArrays good{.bits = 2, .group = 32, .heads = 1, .tokens = 64, .head_dim = 16};
  KiviRoom room(good);
  std::vector<float> x(64 * 16, 1.0f), out(64 * 64);
  const auto what = [&](const auto& f) {
    try {
      f();
    } catch (const Error& e) {
      EXPECT_EQ(Code::kBadInput, e.code());
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto changed = [&](const auto& change) {
    kv::KiviArrays a = room.a;
    change(a);
    return what([&] { host.quantize(x.data(), a); });
  };
  EXPECT_EQ("bits: 3, expected 2, 4 or 8", changed([](auto& a) { a.bits = 3; }));
  EXPECT_EQ("group_size: 48, expected a multiple of 4 that divides 64", changed([](auto& a) { a.group = 48; }));
  EXPECT_EQ("group_size: 2, expected a multiple of 4 that divides 64", changed([](auto& a) { a.group = 2; }));
  EXPECT_EQ("tokens: -1, expected 0 or more", changed([](auto& a) { a.tokens = -1; }));
  EXPECT_EQ("head_dim: 0, expected more than 0", changed([](auto& a) { a.head_dim = 0; }));
  EXPECT_EQ("scales: is NULL", changed([](auto& a) { a.scales = nullptr; }));
  EXPECT_NE(std::string::npos, changed([](auto& a) { a.heads = std::int64_t{1} << 60; }).find("fewer numbers"));
  EXPECT_EQ("x: is NULL", what([&] { host.quantize(nullptr, room.a); }));
  x[70] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ("x: holds a number that is not finite", what([&] { host.quantize(x.data(), room.a); }));
  x[70] = 3e5f;
  EXPECT_EQ("scales: x has groups whose numbers reach beyond float16, 65504",
            what([&] { host.quantize(x.data(), room.a); }));
  EXPECT_EQ("scales: hold a number that is not finite", what([&] { host.dequantize(room.a, out.data()); }));
  x[70] = 1.0f;
  host.quantize(x.data(), room.a);
  EXPECT_EQ("rows: -1, expected 0 or more", what([&] { host.multiply(x.data(), -1, room.a, out.data()); }));
  EXPECT_NE(std::string::npos, what([&] {
                                 host.multiply(x.data(), std::int64_t{1} << 60, room.a, out.data());
                               }).find("rows: 1152921504606846976, expected fewer"));
  EXPECT_EQ("q: is NULL", what([&] { host.multiply(nullptr, 1, room.a, out.data()); }));
}

class KiviDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      found_ = choose(survey(), "opencl");
    } catch (const Error& e) {
      GTEST_SKIP() << "SKIPPED: " << e.what();
    }
  }
  Found found_;
};

TEST_F(KiviDevice, HasTheProcessorsBits) {
  kv::HostKivi host;
  // All at once, and so little memory that heads and rows come piece by piece.
  for (const std::uint64_t memory : {std::uint64_t{0}, std::uint64_t{300000}}) {
    DeviceKivi there(found_, "", memory);
    for (const kv::KiviArrays& sizes : kivi_shapes()) {
      const std::vector<float> x = kivi_numbers(sizes.heads * static_cast<std::int64_t>(sizes.numbers()), 11);
      KiviRoom expected(sizes), got(sizes);
      host.quantize(x.data(), expected.a);
      there.quantize(x.data(), got.a);
      ASSERT_TRUE(same_bytes(expected.codes, got.codes)) << name_of(sizes) << ": codes";
      ASSERT_TRUE(same_bytes(expected.scales, got.scales)) << name_of(sizes) << ": scales";
      ASSERT_TRUE(same_bytes(expected.minima, got.minima)) << name_of(sizes) << ": minima";
      std::vector<float> back(x.size(), 7.0f), back_there(x.size(), 8.0f);
      host.dequantize(expected.a, back.data());
      there.dequantize(expected.a, back_there.data());
      ASSERT_TRUE(same_bytes(back, back_there)) << name_of(sizes) << ": numbers";
      for (const std::int64_t rows : {1, 8, 21}) {
        const std::vector<float> a = kivi_numbers(sizes.heads * rows * sizes.depth(), 3);
        std::vector<float> out(static_cast<std::size_t>(sizes.heads * rows * sizes.lanes()), 7.0f),
            out_there(out.size());
        host.multiply(a.data(), rows, expected.a, out.data());
        there.multiply(a.data(), rows, expected.a, out_there.data());
        ASSERT_TRUE(same_bytes(out, out_there)) << name_of(sizes) << ": products of " << rows << " rows";
      }
    }
  }
}

TEST_F(KiviDevice, OtherBitsAreRefused) {
  DeviceKivi there(found_, "", 0, std::string(kOptions) + " -cl-fast-relaxed-math");
  const kv::KiviArrays sizes{.bits = 2, .group = 32, .heads = 1, .tokens = 32, .head_dim = 32};
  KiviRoom room(sizes);
  const std::vector<float> x(1024, 1.0f);
  try {
    there.quantize(x.data(), room.a);
    FAIL() << "a device with fast mathematics was used";
  } catch (const Error& e) {
    EXPECT_EQ(Code::kUnsupported, e.code());
    EXPECT_NE(std::string(e.what()).find("its bits are not the processor's"), std::string::npos) << e.what();
  }
}

TEST_F(KiviDevice, RefusesWhatTheProcessorRefuses) {
  DeviceKivi there(found_, "");
  const kv::KiviArrays sizes{.bits = 2, .group = 32, .heads = 1, .tokens = 32, .head_dim = 32};
  KiviRoom room(sizes);
  std::vector<float> x(1024, 1.0f);
  x[5] = 2e5f;
  EXPECT_THROW(there.quantize(x.data(), room.a), Error);
  x[5] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(there.quantize(x.data(), room.a), Error);
  x[5] = 2.0f;
  there.quantize(x.data(), room.a);
}

}  // namespace
}  // namespace kvasir::device
