// What the tests of the store share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "store/open.hpp"
#include "store/redis_fixture.hpp"

namespace kvasir::store {

using namespace std::chrono_literals;

inline const Fingerprint kPrint = fingerprint_of("test model");

// Bytes that only `seed` decides.
inline std::vector<std::byte> noise(std::size_t n, std::uint64_t seed) {
  std::vector<std::byte> bytes(n);
  for (auto& b : bytes) b = static_cast<std::byte>(splitmix64(seed));
  return bytes;
}

inline SharedBytes test_record(const Key& parent, std::span<const std::int32_t> tokens, std::size_t payload,
                               std::uint64_t seed, float cost = 1, Kind kind = Kind::kChunk) {
  const auto bytes = noise(payload, seed);
  const std::span<const std::byte> parts[] = {std::span(bytes).first(payload / 3),
                                              std::span(bytes).subspan(payload / 3)};
  return make_record({.kind = kind, .fingerprint = kPrint, .parent = parent, .cost = cost}, tokens, parts);
}

// Records 0 .. n-1 of a text that only `seed` decides, each the child of the one before.
struct TestChain {
  TestChain(std::uint64_t seed, int n, std::size_t payload, float cost = 1) {
    Key key = root_key(kPrint, "chain " + std::to_string(seed));
    for (int i = 0; i < n; ++i) {
      const std::int32_t token[] = {static_cast<std::int32_t>(seed), i};
      records.push_back(test_record(key, token, payload, seed * 1000 + static_cast<std::uint64_t>(i), cost));
      keys.push_back(key = chunk_key(key, token));
    }
  }
  std::vector<Key> keys;
  std::vector<SharedBytes> records;
};

inline bool same_bytes(const SharedBytes& a, const SharedBytes& b) {
  return std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

inline int count_found(const std::vector<Found>& found) {
  int n = 0;
  for (const Found& f : found) n += f ? 1 : 0;
  return n;
}

}  // namespace kvasir::store
