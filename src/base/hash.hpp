// FNV-1a, 64 bits: to compare results, not to defend against anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvasir {

inline std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t hash = 0xcbf29ce484222325u) {
  for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  return hash;
}

}  // namespace kvasir
