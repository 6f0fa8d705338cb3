// Outlines of representatives: 8 bits a number, so that a step over a long context reads half of the bytes and
// multiplies integers. Scores of outlines say which blocks may be among the best; these are scored again by what is
// stored (select/selection.cpp). Outlines follow from the representatives, so they are not stored.
//
// A representative's number x of channel c is  center_c + reach_c * scale * (u - 64),  u in [1, 127], scale of the
// block. Center and reach, the frame, come from a few pages that the sequence has before: keys have channels of several
// hundred beside others of one, and no scale of a block would do for both. A page of the pool belongs to sequences with
// the same tokens up to its end alone, so all agree about its frame.
//
// In memory the outlines of kOutlineBlocks blocks, those of consecutive slots of the pool, are a tile: 16 scales (f32),
// then for every 4 channels 64 bytes, byte 4 i + j channel j of block i. A vector is a tile's blocks, so nothing has to
// be added across lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "select/spec.hpp"
#include "simd/isa.hpp"

namespace kvasir::select {

inline constexpr int kOutlineBlocks = 16;  // of a tile

// Pages [first, end) of a sequence share a frame, which comes from the pages `from`.
struct FramePages {
  static constexpr int kMost = 4;
  std::int64_t first;
  std::int64_t end;
  int count;
  std::int64_t from[kMost];
};
constexpr FramePages frame_of(std::int64_t page) {
  if (page < 4) return {0, 4, 1, {0}};
  const std::int64_t first = page < 16 ? 4 : page < 64 ? 16 : page < 256 ? 64 : page / 256 * 256;
  const std::int64_t step = first < 256 ? first / 4 : 64;
  return {first, first < 256 ? 4 * first : first + 256, 4, {first, first - step, first - 2 * step, first - 3 * step}};
}

// pitch: summary_pitch of the layer.
constexpr std::size_t outline_tile_bytes(int pitch) {
  return kOutlineBlocks * (sizeof(float) + static_cast<std::size_t>(pitch));
}
constexpr std::int64_t slots_per_tile(int blocks_per_page) { return kOutlineBlocks / blocks_per_page; }

// Of the pages that share a frame. (pitch) each.
struct OutlineFrame {
  float* center;
  float* reach;
};

// Query rows in a frame: a score is  base + scale * factor * (sum of code * u + start).
struct OutlineRows {
  std::int8_t* codes;   // (rows, pitch)
  float* factor;        // (rows)
  float* base;          // (rows)
  std::int32_t* start;  // (rows)
};

struct OutlineKernels {
  // From summaries of `pages` pages: representatives (blocks, pitch) in f16, width numbers each.
  void (*frame)(const std::byte* const* summaries, int pages, int blocks, int width, int pitch, const OutlineFrame& to);
  // Writes the outlines of a page as blocks [lane, lane + blocks) of a tile.
  void (*draw)(const std::byte* summary, int blocks, int pitch, const OutlineFrame& frame, std::byte* tile, int lane);
  // asked: (rows, pitch).
  void (*ask)(const float* asked, int rows, int pitch, const OutlineFrame& frame, const OutlineRows& to);
  // scores[r * stride + i] of blocks [lane, lane + count) of consecutive tiles, lane < 16.
  void (*scores)(const std::byte* tiles, int lane, std::int64_t count, int pitch, const OutlineRows& rows, int n,
                 float* scores, std::ptrdiff_t stride);
};

KVASIR_DECLARE_KERNELS(OutlineKernels, outlines)

}  // namespace kvasir::select
