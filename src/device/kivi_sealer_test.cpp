// KIVI's pages sealed on the first OpenCL device against the processor's, byte by byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "device/seal.hpp"
#include "kv/spec.hpp"
#include "simd/half.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::device {
namespace {

// Normal numbers with rows of different sizes; any bits (NaN, infinities), ties, subnormals, zeros, constants.
std::vector<std::uint16_t> raw_pages(int n, int count, unsigned seed_in) {
  std::vector<std::uint16_t> x(static_cast<std::size_t>(n) * static_cast<std::size_t>(count));
  std::uint64_t seed = seed_in;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t r = splitmix64(seed);
    const float u = static_cast<float>(r & 0xffff) / 65536.0f - static_cast<float>(r >> 16 & 0xffff) / 65536.0f;
    switch (i / static_cast<std::size_t>(n) % 6) {
      case 0:
        x[i] = simd::f32_to_f16(u * static_cast<float>(1 + i / 128 % 5));
        break;
      case 1:
        x[i] = static_cast<std::uint16_t>(r);
        break;
      case 2:
        x[i] = simd::f32_to_f16(0.5f * static_cast<float>(r % 31));
        break;
      case 3:
        x[i] = static_cast<std::uint16_t>(r % 1024);
        break;
      case 4:
        x[i] = 0x8000;
        break;
      default:
        x[i] = static_cast<std::uint16_t>(0x3c00 + i / 128 % 7);
    }
  }
  return x;
}

void expect_bytes(const Context& context, int d, kv::Side side, int bits, int group, int pages,
                  std::initializer_list<int> skips) {
  Programs programs("");
  const bool keys = side == kv::Side::kKeys;
  const std::string name = "int" + std::to_string(bits) + (keys ? "_channel:" : "_token:") + std::to_string(group);
  const kv::CodecSpec spec = kv::parse_codec(name, d, side, "test");
  const kv::CodecSide& s = keys ? spec.codec->k : spec.codec->v;
  KiviSealer sealer(context, programs, side, d, bits, group);
  ASSERT_EQ(s.bytes(d, spec.params), sealer.page_bytes()) << name << " d " << d;
  const int n = 128 * d;
  const std::vector<std::uint16_t> raw = raw_pages(n, pages, static_cast<unsigned>(d + bits));
  for (const int skip : skips) {
    std::vector<std::byte> expected(static_cast<std::size_t>(pages) * sealer.page_bytes());
    std::vector<std::byte> got(expected.size(), std::byte{0xaa});
    tensor::Buffer scratch(tensor::Tag::kScratch, kv::seal_floats(d) * sizeof(float));
    for (int p = 0; p < pages; ++p)
      s.seal({d, spec.params, nullptr}, reinterpret_cast<const std::byte*>(raw.data() + p * n), skip,
             scratch.as<float>(), expected.data() + static_cast<std::size_t>(p) * sealer.page_bytes());
    sealer.seal(reinterpret_cast<const std::byte*>(raw.data()), pages, skip, got.data());
    const auto at = std::mismatch(expected.begin(), expected.end(), got.begin()).first - expected.begin();
    EXPECT_EQ(static_cast<std::size_t>(at), expected.size())
        << name << " d " << d << " skip " << skip << ": byte " << at % static_cast<std::ptrdiff_t>(sealer.page_bytes())
        << " of page " << at / static_cast<std::ptrdiff_t>(sealer.page_bytes());
  }
}

TEST(KiviSealer, WritesTheProcessorsBytes) {
  std::unique_ptr<Context> context;
  try {
    context = std::make_unique<Context>(choose(survey(), "opencl"));
  } catch (const Error& e) {
    GTEST_SKIP() << "SKIPPED: " << e.what();
  }
  for (const int d : {64, 80, 128, 256})
    for (const auto side : {kv::Side::kKeys, kv::Side::kValues})
      for (const int bits : {2, 4})
        for (const int group : {32, 64, 128}) expect_bytes(*context, d, side, bits, group, 6, {0, 4, 40});
}

// Small enough for tests/oclgrind_test.sh.
TEST(KiviSealer, ALittleOfEachSide) {
  std::unique_ptr<Context> context;
  try {
    context = std::make_unique<Context>(choose(survey(), "opencl"));
  } catch (const Error& e) {
    GTEST_SKIP() << "SKIPPED: " << e.what();
  }
  expect_bytes(*context, 48, kv::Side::kKeys, 2, 32, 2, {4});
  expect_bytes(*context, 48, kv::Side::kValues, 4, 64, 2, {4});
}

TEST(KiviSealer, NamesWhatItCannotSeal) {
  std::unique_ptr<Context> context;
  try {
    context = std::make_unique<Context>(choose(survey(), "opencl"));
  } catch (const Error& e) {
    GTEST_SKIP() << "SKIPPED: " << e.what();
  }
  Programs programs("");
  EXPECT_THROW(KiviSealer(*context, programs, kv::Side::kKeys, 128, 3, 32), Error);
}

}  // namespace
}  // namespace kvasir::device
