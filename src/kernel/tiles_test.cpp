#include "kernel/tiles.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "simd/emulated_amx_fixture.hpp"
#include "simd/every_isa.hpp"

namespace kvasir::kernel {
namespace {

#if defined(__x86_64__) && defined(__linux__)

TEST(Tiles, SumsAreThoseOfLoops) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const simd::UsableTiles usable;
  const TileKernels& kernels = tiles_of(simd::Isa::kAvx512Amx);
  ASSERT_NE(kernels.multiply, nullptr);
  std::mt19937 random(3);
  for (const int depth : {64, 128, 192, 1024})
    for (const int panels : {1, 2, 7, 8})
      for (const bool extreme : {false, true}) {
        const int pitch = 16 * panels + 5;
        std::vector<std::int8_t> x(static_cast<std::size_t>(kTileRows * depth));
        std::vector<std::byte> b(static_cast<std::size_t>(panels * depth * kTileLanes));
        for (auto& v : x) v = static_cast<std::int8_t>(extreme ? -128 : static_cast<int>(random() % 255) - 127);
        for (auto& v : b) v = static_cast<std::byte>(extreme ? 128 : random() % 256);
        std::vector<std::int32_t> sums(static_cast<std::size_t>(kTileRows * pitch), 77);
        kernels.start();
        kernels.multiply({x.data(), b.data(), panels, depth, sums.data(), pitch});
        kernels.stop();
        for (int r = 0; r < kTileRows; ++r)
          for (int lane = 0; lane < pitch; ++lane) {
            std::int32_t want = 77;
            if (lane < 16 * panels) {
              want = 0;
              const std::byte* const panel = b.data() + static_cast<std::ptrdiff_t>(lane / 16) * depth * kTileLanes;
              for (int k = 0; k < depth; ++k)
                want += x[static_cast<std::size_t>(r * depth + k)] *
                        static_cast<std::int8_t>(panel[k / 4 * 64 + 4 * (lane % 16) + k % 4]);
            }
            ASSERT_EQ(sums[static_cast<std::size_t>(r * pitch + lane)], want)
                << "depth " << depth << " panels " << panels << " row " << r << " lane " << lane;
          }
      }
  EXPECT_EQ(simd::UsableTiles::executed() > 0, !simd::UsableTiles::by_processor());
}

TEST(Tiles, PeaksCountWhatTheyDo) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const simd::UsableTiles usable;
  const TileKernels& kernels = tiles_of(simd::Isa::kAvx512Amx);
  const long before = simd::UsableTiles::executed();
  float sum = 0;
  const std::int64_t operations = kernels.int8_peak(3, &sum);
  const long products = simd::UsableTiles::executed() - before - 11;  // without two of configuration, and moves
  EXPECT_EQ(operations % (16 * 16 * 64 * 2), 0);
  const std::int64_t tiles = operations / (16 * 16 * 64 * 2);
  if (!simd::UsableTiles::by_processor()) {
    EXPECT_EQ(products, tiles);
  }
  EXPECT_EQ(sum, static_cast<float>(tiles / 4 * 64)) << "a quarter of the products are added up here";
  EXPECT_EQ(kernels.bf16_peak(3, &sum), operations / 2);
  EXPECT_EQ(sum, static_cast<float>(tiles / 4 * 32));
}

TEST(Tiles, OnlyASetThatHasThemUsesThem) {
  for (const simd::Isa isa : simd::kIsas) {
    EXPECT_EQ(simd::has_tiles(isa), isa == simd::Isa::kAvx512Amx);
    EXPECT_TRUE(simd::withheld(isa).empty() || !simd::supported(isa)) << simd::name(isa);
  }
  const simd::KeepIsa keep;
  simd::force(simd::Isa::kScalar);
  EXPECT_EQ(tiles_in_use(), nullptr);
}

#endif

}  // namespace
}  // namespace kvasir::kernel
