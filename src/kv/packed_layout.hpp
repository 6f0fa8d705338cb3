// Where the codes of a packed matrix lie: what all codecs of 1 to 8 bits store.
//
// A packed matrix has `lanes` columns and `depth` rows of codes of B bits (1, 2, 3, 4, 5 or 8), both multiples of 16,
// and is made to be multiplied from the left: out[lane] = sum over depth of x[depth] * code[depth][lane]. Keys have
// tokens for lanes and channels for depth, values have channels for lanes and tokens for depth.
//
// Panels of 16 lanes follow each other; a panel is a sequence of units of 16 depth, 32 B bytes each, without padding.
// In a unit, byte 4 i + r of "word" j (64 bytes) belongs to lane i and depth 4 j + r, so that a 32-bit lane of a vector
// holds four consecutive rows of one column, which is what integer dot products take. With c0 .. c3 for the codes of
// one byte of words 0 .. 3, and bits counted from the lowest:
//   8 bits   4 x 64 bytes: word j is byte for byte code - 128, signed
//   4 bits   64 bytes c0 | c1 << 4, then 64 bytes c2 | c3 << 4
//   2 bits   64 bytes c0 | c1 << 2 | c2 << 4 | c3 << 6
//   1 bit    32 bytes: c0 | c1 << 1 | c2 << 2 | c3 << 3 of byte i (< 32) in the low half, of byte 32 + i in the high
//   half 3 bits   64 bytes A: bits 0-2 c0, 3 c2's bit 2, 4-6 c1, 7 c3's bit 2; then 32 bytes, which hold the low bits
//   of c2
//            and c3 in bits 0-1 and 4-5 for byte i (< 32), in bits 2-3 and 6-7 for byte 32 + i
//   5 bits   64 bytes A0: bits 0-4 c0, 5-7 the bits 2-4 of c2; 64 bytes A1: the same of c1 and c3; then 32 bytes, which
//            hold the bits 0-1 of c2 and of c3 in the low half for byte i (< 32), in the high half for byte 32 + i
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
