// The BLAKE2b of amalgamations against libsodium's: names of records must be the same ones.
#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/random.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <vector>

namespace own {
#include "../tools/amalgamation/sodium.h"
}  // namespace own

namespace {

TEST(AmalgamationHash, IsThatOfLibsodium) {
  ASSERT_GE(sodium_init(), 0);
  std::mt19937 random(7);
  std::vector<unsigned char> bytes(1000);
  for (auto& b : bytes) b = static_cast<unsigned char>(random());
  for (const std::size_t key : {0, 1, 31, 32, 64})
    for (const std::size_t out : {16, 32, 64})
      for (std::size_t size = 0; size <= bytes.size(); size += size < 300 ? 1 : 97) {
        unsigned char want[64] = {}, got[64] = {};
        crypto_generichash(want, out, bytes.data(), size, bytes.data(), key);
        own::crypto_generichash_state state;
        own::crypto_generichash_init(&state, bytes.data(), key, out);
        // In parts of random sizes, some of them empty.
        for (std::size_t at = 0; at < size;) {
          const std::size_t part = std::min<std::size_t>(size - at, random() % 200);
          own::crypto_generichash_update(&state, bytes.data() + at, part);
          at += part;
        }
        own::crypto_generichash_final(&state, got, out);
        ASSERT_EQ(std::memcmp(want, got, 64), 0) << size << " bytes, a key of " << key << ", a hash of " << out;
      }
}

TEST(AmalgamationHash, ACopyGoesOnByItself) {
  own::crypto_generichash_state a;
  own::crypto_generichash_init(&a, nullptr, 0, 32);
  own::crypto_generichash_update(&a, reinterpret_cast<const unsigned char*>("abc"), 3);
  own::crypto_generichash_state b = a;
  own::crypto_generichash_update(&b, reinterpret_cast<const unsigned char*>("d"), 1);
  unsigned char ha[32], hb[32], want[32];
  own::crypto_generichash_final(&a, ha, 32);
  own::crypto_generichash_final(&b, hb, 32);
  crypto_generichash(want, 32, reinterpret_cast<const unsigned char*>("abc"), 3, nullptr, 0);
  EXPECT_EQ(std::memcmp(ha, want, 32), 0);
  crypto_generichash(want, 32, reinterpret_cast<const unsigned char*>("abcd"), 4, nullptr, 0);
  EXPECT_EQ(std::memcmp(hb, want, 32), 0);
}

TEST(AmalgamationHash, RandomBytesDiffer) {
  unsigned char a[300] = {}, b[300] = {};
  own::randombytes_buf(a, sizeof a);
  own::randombytes_buf(b, sizeof b);
  EXPECT_NE(std::memcmp(a, b, sizeof a), 0);
  EXPECT_NE(std::memcmp(a + 256, b + 256, sizeof a - 256), 0);
}

}  // namespace
