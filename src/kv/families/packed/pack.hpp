// Codes into packed matrices (kv/families/packed/layout.hpp), when a page is sealed. For sources compiled per
// instruction set.
#pragma once

#include "kernel/interleave.hpp"
#include "kv/families/packed/unit.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// Packs one panel of 16 lanes from codes[depth * stride + lane], codes below 2^B.
template <int B>
KVASIR_INLINE void pack_panel(const std::uint8_t* codes, std::ptrdiff_t stride, int depth, std::byte* panel) {
  KVASIR_UNROLL(1)
  for (int k = 0; k < depth; k += kPackedUnit, panel += packed_unit_bytes(B)) {
    Bytes w[4];
    KVASIR_UNROLL(4)
    for (int j = 0; j < 4; ++j) w[j] = interleave4(codes + (k + 4 * j) * stride, stride);
    Unit<B>::store(panel, w);
  }
}

// The same from codes[lane * stride + depth]: what is quantised token by token, for keys.
template <int B>
KVASIR_INLINE void pack_panel_transposed(const std::uint8_t* codes, std::ptrdiff_t stride, int depth,
                                         std::byte* panel) {
  constexpr int kChunk = 256;  // depth per pass over the words, which stay in the L1 cache
  alignas(64) std::uint32_t words[kChunk / 4][kernel::kPanelRows];
  for (int first = 0; first < depth; first += kChunk) {
    const int n = depth - first < kChunk ? depth - first : kChunk;
    const std::byte* rows[kernel::kPanelRows];
    for (int i = 0; i < kernel::kPanelRows; ++i)
      rows[i] = reinterpret_cast<const std::byte*>(codes + i * stride + first);
    kernel::KVASIR_TARGET::interleave_words(rows, n / 4, words[0]);
    for (int k = 0; k < n / 4; k += 4, panel += packed_unit_bytes(B)) {
      Bytes w[4];
      KVASIR_UNROLL(4)
      for (int j = 0; j < 4; ++j) w[j] = load_bytes(words[k + j]);
      Unit<B>::store(panel, w);
    }
  }
}

// Whole matrices: codes[depth * lanes + lane] or, transposed, codes[lane * depth_count + depth].
template <int B>
static inline void pack_matrix(const std::uint8_t* codes, int lanes, int depth, std::byte* to) {
  for (int i = 0; i < lanes; i += kPackedLanes, to += packed_panel_bytes(B, depth))
    pack_panel<B>(codes + i, lanes, depth, to);
}
template <int B>
static inline void pack_matrix_transposed(const std::uint8_t* codes, int lanes, int depth, std::byte* to) {
  for (int i = 0; i < lanes; i += kPackedLanes, to += packed_panel_bytes(B, depth))
    pack_panel_transposed<B>(codes + static_cast<std::ptrdiff_t>(i) * depth, depth, depth, to);
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
