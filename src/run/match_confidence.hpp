// How sure a draft token is that follows equal words: by how many they are.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "run/acceptance.hpp"

namespace kvasir::run {

// 1, 2, 3, 4 to 7, 8 to 15 ...
inline int confidence_of_match(std::int64_t tokens) {
  if (tokens <= 3) return static_cast<int>(std::max<std::int64_t>(tokens, 1)) - 1;
  return std::min(kConfidence - 1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(tokens))));
}

}  // namespace kvasir::run
