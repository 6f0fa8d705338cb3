// What pages of affine codes have in common. For sources compiled per instruction set.
#pragma once

#include "kv/codec.hpp"
#include "kv/packed.hpp"
#include "kv/packed_pack.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr int kMaxDepth = 1024;  // of a packed matrix: the largest head size, for keys

KVASIR_INLINE int smaller(int a, int b) { return a < b ? a : b; }

// A page as a packed matrix. Keys: lanes are tokens, depth is channels; values: the other way round.
struct PageShape {
  int lanes;
  int depth;
  int group;  // lanes or rows of depth, whichever share a scale
};
KVASIR_INLINE PageShape page_shape(int d, int group, Side side) {
  return side == Side::kKeys ? PageShape{kPageTokens, d, group} : PageShape{d, kPageTokens, group};
}

// The last group may be shorter.
KVASIR_INLINE int groups_of(int n, int group) { return (n + group - 1) / group; }
KVASIR_INLINE int group_end(int begin, int group, int n) { return smaller(begin + group, n); }

// codes[depth * lanes + lane] to panels.
template <int B>
KVASIR_INLINE void pack_codes(const PageShape& shape, const std::uint8_t* codes, std::byte* to) {
  for (int lane = 0; lane < shape.lanes; lane += kPackedLanes, to += packed_panel_bytes(B, shape.depth))
    pack_panel<B>(codes + lane, shape.lanes, shape.depth, to);
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
