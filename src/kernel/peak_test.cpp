#include "kernel/peak.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "simd/isa_fixture.hpp"

namespace kvasir::kernel {
namespace {

using simd::on_every_isa;

// The sums show that as many multiply-adds were done as are claimed: no more, no fewer.
TEST(Peak, ClaimsTheWorkThatItDoes) {
  on_every_isa([] {
    for (std::int64_t rounds : {1, 3}) {
      float sink = 0;
      const std::int64_t int8 = peak().int8_dot(rounds, &sink);
      EXPECT_GT(int8, 0);
      EXPECT_EQ(sink, static_cast<float>(int8 / 2 * (2 * -3)));
      const std::int64_t f32 = peak().f32_fma(rounds, &sink);
      EXPECT_EQ(sink, static_cast<float>(f32 / 2) * 0.5f * 0.25f);
      const std::int64_t bf16 = peak().bf16_dot(rounds, &sink);
      EXPECT_EQ(sink, static_cast<float>(bf16 / 4) * (0.25f * 0.5f + 0.5f * 0.5f));
    }
  });
}

TEST(Peak, ReadsEveryWordOnce) {
  on_every_isa([] {
    for (std::size_t bytes : {4096, 12288, 65536}) {
      const std::unique_ptr<std::byte, void (*)(void*)> data(static_cast<std::byte*>(std::aligned_alloc(64, bytes)),
                                                             std::free);
      std::uint64_t expected = 0;
      for (std::size_t i = 0; i < bytes / 8; ++i) {
        const std::uint64_t word = (i + 1) * 0x9E3779B97F4A7C15u;
        std::memcpy(data.get() + 8 * i, &word, 8);
        expected += word;
      }
      for (const auto read : peak().read) EXPECT_EQ(read(data.get(), bytes), expected) << bytes;
    }
  });
}

}  // namespace
}  // namespace kvasir::kernel
