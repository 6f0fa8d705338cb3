// A hash of some places of long bytes: says whether they are another model's, not whether somebody changed them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.hpp"

namespace kvasir::weights {

inline std::uint64_t sample_hash(std::span<const std::byte> bytes) {
  constexpr std::size_t kSamples = 16, kSampleBytes = 4096;
  std::uint64_t hash = bytes.size();
  const std::size_t room = bytes.size() > kSampleBytes ? bytes.size() - kSampleBytes : 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t at = room / (kSamples - 1) * i;
    hash = hash_bytes(bytes.subspan(at, std::min(kSampleBytes, bytes.size() - at)), hash);
    if (room == 0) break;
  }
  return hash;
}

}  // namespace kvasir::weights
