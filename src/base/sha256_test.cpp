#include "base/sha256.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/error.hpp"

namespace kvasir {
namespace {

// FIPS 180-2, appendix B.
TEST(Sha256, KnownHashes) {
  const std::string path = testing::TempDir() + "sha256_test";
  const auto of = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return sha256_of_file(path);
  };
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THROW(sha256_of_file(path, [](std::uint64_t) { return false; }), Error);
  std::remove(path.c_str());
  EXPECT_THROW(sha256_of_file(path), Error);
}

}  // namespace
}  // namespace kvasir
