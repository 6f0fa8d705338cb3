// Where the codes of a packed matrix lie: what all codecs of 1 to 8 bits store.
//
// A packed matrix has `lanes` columns and `depth` rows of codes of B bits (1, 2, 3, 4, 5 or 8), both multiples of 16,
// and is made to be multiplied from the left: out[lane] = sum over depth of x[depth] * code[depth][lane]. Keys have
// tokens for lanes and channels for depth, values have channels for lanes and tokens for depth.
//
// Panels of 16 lanes follow each other; a panel is a sequence of units of 16 depth, 32 B bytes each, without padding.
// In a unit, byte 4 i + r of "word" j (64 bytes) belongs to lane i and depth 4 j + r, so that a 32-bit lane of a vector
// holds four consecutive rows of one column, which is what integer dot products take.
//
// c0 .. c3: the codes of byte i in words 0 .. 3; d0 .. d3: those of byte 32 + i; c2[4:2]: bits 4 to 2 of c2. High bits
// stand first.
//   bits  at     bytes  byte i
//   8     64 j   64     cj - 128, signed, for j = 0 .. 3
//   4     0      64     c1[3:0] c0[3:0]
//         64     64     c3[3:0] c2[3:0]
//   2     0      64     c3[1:0] c2[1:0] c1[1:0] c0[1:0]
//   1     0      32     d3 d2 d1 d0 c3 c2 c1 c0
//   3     0      64     c3[2] c1[2:0] c2[2] c0[2:0]
//         64     32     d3[1:0] c3[1:0] d2[1:0] c2[1:0]
//   5     0      64     c2[4:2] c0[4:0]
//         64     64     c3[4:2] c1[4:0]
//         128    32     d3[1:0] d2[1:0] c3[1:0] c2[1:0]
//
// The odd widths put the spare bits of whole codes to use: 2.6 and 2.9 operations per vector of codes, where planes of
// 2 + 1 and 4 + 1 bits would take 4.5.
#pragma once

#include <cstddef>

namespace kvasir::kv {

inline constexpr int kPackedLanes = 16;  // of a panel
inline constexpr int kPackedUnit = 16;   // depth of a unit

constexpr bool packed_width(int bits) { return (bits >= 1 && bits <= 5) || bits == 8; }

constexpr int packed_unit_bytes(int bits) { return 32 * bits; }

constexpr std::size_t packed_panel_bytes(int bits, int depth) {
  return static_cast<std::size_t>(packed_unit_bytes(bits)) * static_cast<std::size_t>(depth / kPackedUnit);
}

// REQUIRES: packed_width(bits), lanes and depth multiples of 16. Exactly bits * lanes * depth / 8.
constexpr std::size_t packed_bytes(int bits, int lanes, int depth) {
  return packed_panel_bytes(bits, depth) * static_cast<std::size_t>(lanes / kPackedLanes);
}

}  // namespace kvasir::kv
