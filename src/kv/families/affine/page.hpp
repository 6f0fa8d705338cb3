// What pages of affine codes have in common. For sources compiled per instruction set.
#pragma once

#include "kv/codec.hpp"
#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/layout.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {

// A page as a packed matrix. Keys: lanes are tokens, depth is channels; values: the other way round.
struct PageShape {
  int lanes;
  int depth;
  int group;    // lanes or rows of depth, whichever share a scale
  float shift;  // of the grid
};

namespace {

inline constexpr int kMaxDepth = 1024;  // of a packed matrix: the largest head size, for keys

KVASIR_INLINE int smaller(int a, int b) { return a < b ? a : b; }

// The sizes of groups that a name may give.
KVASIR_INLINE bool is_group(int n) { return n >= 4 && n <= kPageTokens && (n & (n - 1)) == 0; }
// Of groups that are smaller than a panel's lanes or a unit's depth up to kMostShared share one: kernels pass over it
// once for each.
KVASIR_INLINE bool is_small(int group) { return group < kPackedLanes; }
inline constexpr int kMostShared = kPackedUnit / 4;
static_assert(kPackedLanes == kPackedUnit && kLanes == kPackedLanes);

// The last group may be shorter.
KVASIR_INLINE int groups_of(int n, int group) { return (n + group - 1) / group; }
KVASIR_INLINE int group_end(int begin, int group, int n) { return smaller(begin + group, n); }

// Scales and minima in front of the codes: per row of depth and group of lanes (rows.hpp), or per lane and group of
// depth (columns.hpp).
KVASIR_INLINE std::size_t row_header_bytes(const PageShape& shape) {
  return static_cast<std::size_t>(groups_of(shape.lanes, shape.group)) * static_cast<std::size_t>(shape.depth) * 4;
}
KVASIR_INLINE std::size_t column_header_bytes(const PageShape& shape) {
  return static_cast<std::size_t>(groups_of(shape.depth, shape.group)) * static_cast<std::size_t>(shape.lanes) * 4;
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
