// Quantised panels past few columns: as fast as the weights come from memory.
#pragma once

#include "kernel/int_sums.hpp"
#include "kernel/streaming.hpp"
#include "simd/shapes.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

template <class F>
struct IntGemv : IntSums<F> {
  using Sums = IntSums<F>;
  using Sums::head_bytes, Sums::panel_bytes, Sums::chunk_blocks, Sums::kChunkBlocks, Sums::kSubs, Sums::kPlanes,
      Sums::kSigned;
  using typename Sums::Scale;

  // P panels side by side past C columns. Bytes are fetched kAhead before they are used (0: not at all), at the end of
  // a panel those of the next P panels; `more`: there are such.
  template <int P, int C, int kAhead>
  static void panels(const MatmulArgs& args, std::int64_t panel, bool more) {
    const std::int64_t stride = panel_bytes(args.k), blocks = args.k / F::kBlock;
    const Int8Tile x = int8_tile(*args.x, 0);
    const std::byte* head = args.panels + panel * stride;
    const std::byte* const turn = head + stride - kAhead;
    const std::int64_t beyond = more ? kAhead + (P - 1) * stride : 0;
    F32 acc[P][C][1];
    KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) acc[p][c][0] = zero();
    std::int64_t i = 0;
    for (std::int64_t first = 0; first < blocks; first += kChunkBlocks) {
      const int n = chunk_blocks(blocks, first);
      const std::byte* planes = head + head_bytes(n);
      if constexpr (kAhead > 0)
        fetch<P>(head + (head < turn ? kAhead : beyond), stride, static_cast<int>(planes - head));
      for (int b = 0; b < n; ++b, head += F::kHeadBytes) {
        for (int s = 0; s < kSubs; ++s, i += C, planes += kPlanes) {
          [[maybe_unused]] const std::byte* const fetched = planes + (planes < turn ? kAhead : beyond);
          KVASIR_UNROLL(4)
          for (int p = 0; p < P; ++p) {
            if constexpr (kAhead > 0) fetch<1>(fetched + p * stride, 0, kPlanes);
            multiply<C>(head + p * stride, s, planes + p * stride, x, i, acc[p]);
          }
        }
      }
      head = planes;
    }
    KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) Sums::store_rows(args, panel + p, c, acc[p][c][0]);
  }

  template <int P>
  KVASIR_INLINE void fetch(const std::byte* from, std::int64_t stride, int bytes) {
    KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(8)
    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(from + p * stride + line, 0, 3);
  }

  template <int C>
  KVASIR_INLINE void multiply(const std::byte* head, int sub, const std::byte* planes, const Int8Tile& x,
                              std::int64_t i, F32 (*acc)[1]) {
    Bytes w[1][8];
    Scale scale;
    if constexpr (kSigned)
      Sums::load_signed(planes, w[0]);
    else
      Sums::load_unsigned(planes, w[0]);
    Sums::load_scale(head, sub, scale);
    Sums::template product<1, C>(w, &scale, x, i, acc);
  }

  template <int C>
  static void gemv(const MatmulArgs& args) {
    std::int64_t p = args.panel_begin;
    const Streaming way = streaming();
    if constexpr (!simd::KVASIR_TARGET::kFewShapes)
      if (way == Streaming::kPlain)
        for (; p < args.panel_end; ++p) panels<1, C, 0>(args, p, false);
    if (way == Streaming::kInterleaved)
      for (; p + kStreams <= args.panel_end; p += kStreams)
        panels<kStreams, C, kInterleavedAhead>(args, p, p + 2 * kStreams <= args.panel_end);
    for (; p < args.panel_end; ++p) panels<1, C, kAheadBytes>(args, p, p + 1 < args.panel_end);
  }
};

}  // namespace kvasir::kernel::KVASIR_TARGET
