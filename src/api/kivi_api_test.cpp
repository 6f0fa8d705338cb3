// KIVI's arrays through the C++ and the C API, on the processor and on the first OpenCL device. Bits are those of
// device/kivi_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kvasir/kivi.hpp"
#include "kvasir/kvasir.h"

namespace kvasir {
namespace {

constexpr std::int64_t kKiviHeads = 2, kKiviTokens = 320, kKiviDim = 64;

struct KiviOwned {
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(kKiviHeads * kKiviTokens * kKiviDim / 4);
  std::vector<std::uint16_t> scales = std::vector<std::uint16_t>(kKiviHeads * kKiviTokens * kKiviDim / 32);
  std::vector<std::uint16_t> minima = scales;
  kvasir_kivi_arrays arrays(int values) {
    return {.values = values,
            .float32_scales = 0,
            .bits = 2,
            .group = 32,
            .heads = kKiviHeads,
            .tokens = kKiviTokens,
            .head_dim = kKiviDim,
            .codes = codes.data(),
            .scales = scales.data(),
            .minima = minima.data()};
  }
  bool operator==(const KiviOwned&) const = default;
};

TEST(Kivi, DevicesGiveTheSameArraysInBothLanguages) {
  std::vector<float> x(kKiviHeads * kKiviTokens * kKiviDim);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.37f) * static_cast<float>(i % 7);
  bool compared = false;
  for (const bool values : {false, true}) {
    const std::int64_t depth = values ? kKiviTokens : kKiviDim, lanes = values ? kKiviDim : kKiviTokens;
    const std::vector<float> a(x.begin(), x.begin() + kKiviHeads * 3 * depth);
    KiviOwned first;
    std::vector<float> first_back(x.size()), first_out(static_cast<std::size_t>(kKiviHeads * 3 * lanes));
    for (const char* device : {"cpu", "opencl"}) {
      kvasir_kivi* c = nullptr;
      if (const kvasir_status status = kvasir_kivi_open(device, &c)) {
        ASSERT_EQ(KVASIR_UNSUPPORTED, status) << kvasir_error();
        EXPECT_THROW(Kivi{device}, std::runtime_error);
        continue;
      }
      KiviOwned owned;
      const kvasir_kivi_arrays arrays = owned.arrays(values);
      std::vector<float> back(x.size()), out(first_out.size());
      ASSERT_EQ(KVASIR_OK, kvasir_kivi_quantize(c, x.data(), &arrays)) << kvasir_error();
      ASSERT_EQ(KVASIR_OK, kvasir_kivi_dequantize(c, &arrays, back.data())) << kvasir_error();
      ASSERT_EQ(KVASIR_OK, kvasir_kivi_multiply(c, a.data(), 3, &arrays, out.data())) << kvasir_error();
      if (std::string(device) == "cpu") {
        EXPECT_STREQ("cpu", kvasir_kivi_device(c));
        double worst = 0;
        for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(double{x[i]} - double{back[i]}));
        EXPECT_LT(worst, 2.1);  // half a step of a range of up to 12 in 3 steps, and rounded scales
        first = owned, first_back = back, first_out = out;
      } else {
        EXPECT_STRNE("cpu", kvasir_kivi_device(c));
        EXPECT_EQ(first, owned);
        EXPECT_EQ(first_back, back);
        EXPECT_EQ(first_out, out);
        compared = true;
      }
      kvasir_kivi_close(c);

      Kivi kivi(device);
      KiviOwned again;
      const kvasir_kivi_arrays to = again.arrays(values);
      KiviArrays same{.values = values, .heads = to.heads, .tokens = to.tokens, .head_dim = to.head_dim};
      same.codes = to.codes, same.scales = to.scales, same.minima = to.minima;
      kivi.quantize(x.data(), same);
      EXPECT_EQ(owned, again);
    }
  }
  if (!compared) GTEST_SKIP() << "SKIPPED: there is no OpenCL device";
}

TEST(Kivi, SaysWhatIsWrong) {
  EXPECT_THROW(Kivi("tpu"), std::invalid_argument);
  kvasir_kivi* kivi = nullptr;
  EXPECT_EQ(KVASIR_BAD_INPUT, kvasir_kivi_open("tpu", &kivi));
  EXPECT_NE(std::string(kvasir_error()).find("expected cpu, gpu, opencl"), std::string::npos) << kvasir_error();
  EXPECT_EQ(KVASIR_BAD_INPUT, kvasir_kivi_open(nullptr, nullptr));
  ASSERT_EQ(KVASIR_OK, kvasir_kivi_open(nullptr, &kivi));
  KiviOwned owned;
  kvasir_kivi_arrays arrays = owned.arrays(0);
  const std::vector<float> x(kKiviHeads * kKiviTokens * kKiviDim);
  EXPECT_EQ(KVASIR_BAD_INPUT, kvasir_kivi_quantize(kivi, nullptr, &arrays));
  EXPECT_EQ(KVASIR_BAD_INPUT, kvasir_kivi_quantize(kivi, x.data(), nullptr));
  arrays.bits = 5;
  EXPECT_EQ(KVASIR_BAD_INPUT, kvasir_kivi_quantize(kivi, x.data(), &arrays));
  EXPECT_STREQ("bits: 5, expected 2, 4 or 8", kvasir_error());
  kvasir_kivi_close(kivi);
  kvasir_kivi_close(nullptr);
}

}  // namespace
}  // namespace kvasir
