// Rotated codecs by the matrix unit of AMX.
#include "kv/families/packed/tiles_fixture.hpp"

namespace kvasir::kv {
namespace {

#if defined(__x86_64__) && defined(__linux__)

using namespace tiles_fixture;

TEST(RotatedTiles, PagesGiveTheBitsOfVectors) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const UsableTiles usable;
  const simd::KeepIsa keep;
  for (const char* codec : {"rq2", "rq3", "rq4", "rq5", "rq8"})
    for (const int d : {16, 64, 80, 128, 192, 1024})
      for (const Side side : {Side::kKeys, Side::kValues}) expect_bits_of_vectors(codec, d, side, 16);
}

TEST(RotatedTiles, ACacheGivesTheBitsOfVectors) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const UsableTiles usable;
  const simd::KeepIsa keep;
  expect_cache_of_vectors("rq5", "rq4");
}

#endif

}  // namespace
}  // namespace kvasir::kv
