// Affine codecs by the matrix unit of AMX.
#include "kv/families/packed/tiles_fixture.hpp"

namespace kvasir::kv {
namespace {

#if defined(__x86_64__) && defined(__linux__)

using namespace tiles_fixture;

// Keys per channel and values per token: a scale for every row of depth. All groups but those that share a panel.
TEST(AffineTiles, ScalesOfTheDepthGiveTheBitsOfVectors) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const UsableTiles usable;
  const simd::KeepIsa keep;
  for (const std::string codec : {"int2_channel", "int4_channel"})
    for (const int d : {16, 80, 128, 576, 1024})
      for (const int group : {8, 16, 32, 128})
        expect_bits_of_vectors(codec + ":" + std::to_string(group), d, Side::kKeys, group < 16 ? 0 : 16, {15, 16, 41});
  for (const char* codec : {"int2_token", "int4_token:128", "int8_token", "int8_token:8", "hqq3", "hqq8", "uniform2"})
    for (const int d : {16, 80, 128, 1024})
      expect_bits_of_vectors(codec, d, Side::kValues, std::string(codec) == "int8_token:8" ? 0 : 16, {15, 16, 41});
}

// Keys per token and values per channel: every group of depth has sums of its own, and short groups share a tile.
TEST(AffineTiles, ScalesOfTheLanesGiveTheBitsOfVectors) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const UsableTiles usable;
  const simd::KeepIsa keep;
  for (const std::string codec : {"int2_token", "int4_token", "int8_token", "hqq3"})
    for (const int d : {48, 80, 128, 192, 1024})
      for (const int group : {16, 32, 64, 128})
        expect_bits_of_vectors(codec + ":" + std::to_string(group), d, Side::kKeys, group < 32 ? 0 : 16, {15, 16, 41});
  for (const char* codec : {"uniform2", "uniform4", "hqq4"}) expect_bits_of_vectors(codec, 128, Side::kKeys, 16);
  for (const char* codec : {"int2_channel", "int4_channel:16", "int4_channel:64", "int2_channel:128"})
    for (const int d : {16, 80, 128, 1024})
      expect_bits_of_vectors(codec, d, Side::kValues, std::string(codec) == "int4_channel:16" ? 0 : 16, {15, 16, 41});
}

TEST(AffineTiles, ACacheGivesTheBitsOfVectors) {
  if (!simd::emulated_amx::possible()) GTEST_SKIP() << "needs AVX-512 with VNNI and a build with its kernels";
  const UsableTiles usable;
  const simd::KeepIsa keep;
  expect_cache_of_vectors("int4_channel", "int2_token");  // kivi's
  expect_cache_of_vectors("int8_token", "int4_channel:64");
}

#endif

}  // namespace
}  // namespace kvasir::kv
