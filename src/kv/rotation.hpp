#pragma once

#include <cstdint>

#include "kernel/ops.hpp"

namespace kvasir::kv {

// How queries and keys of a layer are rotated (RoPE): pair i by position * frequencies[i] radians. Whatever the keys
// were multiplied with besides is in their bytes.
struct Rotation {
  const double* frequencies = nullptr;  // (pairs)
  std::int64_t pairs = 0;
  kernel::RopePairs layout = kernel::RopePairs::kSplitHalf;
};

}  // namespace kvasir::kv
