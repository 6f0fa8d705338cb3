// Quantised panels times many columns: as fast as integers are multiplied.
#pragma once

#include "kernel/int_sums.hpp"
#include "simd/shapes.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

template <class F>
struct IntGemm : IntSums<F> {
  using Sums = IntSums<F>;
  using Sums::head_bytes, Sums::panel_bytes, Sums::chunk_blocks, Sums::kChunkBlocks, Sums::kSubs, Sums::kPlanes,
      Sums::kSigned, Sums::kHalves, Sums::kGroups, Sums::kSumStart, Sums::kZero;
  using typename Sums::Scale;
  // Signed bytes are widened before they are multiplied (wide_block).
  static constexpr bool kFewShapes = simd::KVASIR_TARGET::kFewShapes;
  static constexpr bool kWide = kSigned && !KVASIR_SIGNED_DOTS;

  // P panels against a whole tile of columns: the codes of a 32-block are unpacked once into registers and stream past
  // the tile's activations; accumulators (P x 64 columns x 64 bytes) live in the L1 cache. With VNNI the codes of
  // formats that have a zero are scaled so that it is 128 for all of them: what is left out by multiplying them
  // unsigned, -128 * sum(q), was prepared with the activations as the value at which sums start.
  template <int P>
  static void gemm(const MatmulArgs& args, std::int64_t panel, std::int64_t first) {
    const std::int64_t stride = panel_bytes(args.k);
    alignas(64) float acc[kTileColumns][P][16];
    const Int8Tile x = int8_tile(*args.x, first);
    const auto columns = static_cast<int>(x.columns);
    for (int c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) store(acc[c][p], zero());
    // Lines that nobody has in a cache yet would hold up the stores at the end.
    for (int c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p)
        __builtin_prefetch(args.out + (first + c) * args.ldo + (panel + p) * kPanelRows, 1, 2);
    const std::byte* head = args.panels + panel * stride;
    const std::int64_t blocks = args.k / F::kBlock;
    // The last block's sums are results: they are stored as such where all rows are there and have no factor.
    const bool whole = !kFewShapes && !HasFactor<F> && (panel + P) * kPanelRows <= args.rows;
    float* const out = args.out + first * args.ldo + panel * kPanelRows;
    const std::int64_t last = (blocks * kSubs - 1) * columns;
    std::int64_t i = 0;
    for (std::int64_t begin = 0; begin < blocks; begin += kChunkBlocks) {
      const int n = chunk_blocks(blocks, begin);
      const std::byte* planes = head + head_bytes(n);
      for (int s = 0; s < n * kSubs; ++s, i += columns, planes += kPlanes) {
        const std::byte* const scales = head + s / kSubs * F::kHeadBytes;
        if (first == 0)  // the same block of the panels that follow; for later columns a cache has them
          for (int p = 0; p < P; ++p)
            for (int v = 0; v < kPlanes; v += 64) fetch_ahead(planes + (P + p) * stride + v);
        if constexpr (kWide) {
          wide_block<P>(scales, planes, s % kSubs, stride, x, i, columns, acc);
        } else if (!kFewShapes && whole && i == last) {
          if constexpr (!kFewShapes)
            block<P>(scales, planes, s % kSubs, stride, x, i, columns, acc, Row<P, true>{out, args.ldo});
        } else {
          block<P>(scales, planes, s % kSubs, stride, x, i, columns, acc, Row<P, false>{acc[0][0], 0});
        }
      }
      head = planes;
    }
    if (!kWide && whole) return;
    for (int c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) Sums::store_rows(args, panel + p, first + c, load(acc[c][p]));
  }

  // Where new sums go: back to the accumulators, or to the results.
  template <int P, bool kOut>
  struct Row {
    float* at;
    std::int64_t ldo;
    float* to(int c, int p) const { return at + c * (kOut ? ldo : 16 * P) + 16 * p; }
  };

  template <int P, class To>
  KVASIR_INLINE void block(const std::byte* head, const std::byte* planes, int s, std::int64_t stride,
                           const Int8Tile& x, std::int64_t i, int columns, float (*acc)[P][16], To row) {
    Bytes w[P][8];
    Scale scale[P];
    for (int p = 0; p < P; ++p) {
      Sums::load_scale(head + p * stride, s, scale[p]);
#if KVASIR_HAS_VNNI
      load_scaled(planes + p * stride, w[p]);
      if constexpr (kScaling > 0) Sums::multiply_scale(scale[p], 1.0f / (1 << kScaling));
#else
      if constexpr (kSigned)
        Sums::load_signed(planes + p * stride, w[p]);
      else
        Sums::load_unsigned(planes + p * stride, w[p]);
#if KVASIR_HAS_MMLA
      Sums::pair_groups(w[p]);
#endif
#endif
    }
#if KVASIR_HAS_VNNI
    // Two panels times kColumns columns are ten independent chains of dot products; one chain alone would fill the
    // scheduler with instructions that wait for their predecessor. On a Zen 5 eight are 1 to 3 % slower, fourteen 6 to
    // 9 %.
    // The 16 registers of AVX2 hold eight vectors: two columns of two panels, or five of one.
    constexpr bool kMany = KVASIR_VECTOR_REGISTERS >= 32;
    constexpr int kColumns = kFewShapes ? 8 / kHalves
                             : kMany    ? (kHalves == 1 ? 5 : 2)
                             : P == 2   ? 3 / kHalves
                                        : 5 / kHalves;
#else
    // Eight accumulators of 16-bit sums, of the 16 registers of AVX2 as two per vector.
    constexpr int kColumns = (kFewShapes && KVASIR_VECTOR_REGISTERS >= 32 ? 8 : 4) / kHalves;
#endif
    int c = 0;
    for (; c + kColumns <= columns; c += kColumns)
      columns_of<P, kColumns>(w, scale, x, i + c, acc + c, To{row.to(c, 0), row.ldo});
    for (; c < columns; ++c) columns_of<P, 1>(w, scale, x, i + c, acc + c, To{row.to(c, 0), row.ldo});
  }

#if KVASIR_HAS_VNNI
  static_assert(kZero == 0 || 128 % kZero == 0);
  static constexpr int kScaling = kZero == 0 ? 0 : 7 - __builtin_ctz(kZero | 256);

  KVASIR_INLINE void load_scaled(const std::byte* planes, Bytes (&w)[8]) {
    if constexpr (F::kBits == 4 && kScaling == 4) {  // the high nibbles are in place
      const Bytes high = set1_bytes(0xF0);
      KVASIR_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const Bytes v = load_bytes(planes + 64 * i);
        w[i] = and_(shift_left16<4>(v), high);
        w[i + 4] = and_(v, high);
      }
      return;
    }
    Sums::load_unsigned(planes, w);
    if constexpr (kScaling > 0)
      for (auto& v : w) v = shift_left16<kScaling>(v);
  }

  // P panels times C columns of one 32-block.
  template <int P, int C, class To>
  KVASIR_INLINE void columns_of(const Bytes (*w)[8], const Scale* scale, const Int8Tile& x, std::int64_t i,
                                const float (*acc)[P][16], To row) {
    I32 t[C][P][kHalves];
    KVASIR_UNROLL(8)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      const std::int32_t* start = kHalves == 1 ? x.start + i + c : x.half_sum + 2 * (i + c) + h;
      const I32 first = set1_i32(kZero == 0 ? kSumStart : *start);
      KVASIR_UNROLL(2)
      for (int p = 0; p < P; ++p) t[c][p][h] = first;
    }
    const std::int8_t* q = x.q + 32 * i;
    KVASIR_UNROLL(8)
    for (int g = 0; g < 8; ++g) KVASIR_UNROLL(8)
    for (int c = 0; c < C; ++c) {
      const Bytes a = broadcast4(q + 32 * c + 4 * g);
      KVASIR_UNROLL(2)
      for (int p = 0; p < P; ++p) t[c][p][g / kGroups] = dot_us(t[c][p][g / kGroups], w[p][g], a);
    }
    KVASIR_UNROLL(8)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) {
      F32 sum = Sums::scaled(t[c][p][0], scale[p], 0);
      if constexpr (kHalves == 2) sum = add(sum, Sums::scaled(t[c][p][1], scale[p], 1));
      store(row.to(c, p), Sums::fold(load(acc[c][p]), sum, scale[p], x, i + c));
    }
  }
#else
  template <int P, int C, class To>
  KVASIR_INLINE void columns_of(const Bytes (*w)[8], const Scale* scale, const Int8Tile& x, std::int64_t i,
                                const float (*acc)[P][16], To row) {
    F32 a[C][P];
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) a[c][p] = load(acc[c][p]);
    Sums::template product<P, C, KVASIR_HAS_MMLA>(w, scale, x, i, a);
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) store(row.to(c, p), a[c][p]);
  }

  // Signed weights, without dot products of bytes. Bytes times bytes would take three multiplications per 32 products
  // (moving the sign over, multiplying, widening); widened to 16 bits first they take two, whose sums are exact in 32
  // bits. Codes are widened once for all columns, activations once for P panels.
  template <int P>
  KVASIR_INLINE void wide_block(const std::byte* head, const std::byte* planes, int s, std::int64_t stride,
                                const Int8Tile& x, std::int64_t i, int columns, float (*acc)[P][16]) {
    alignas(64) std::byte q[2][kTileColumns * 32];     // even and odd elements of every column
    const auto widen = [&](int c, const void* from) {  // two columns
      const Bytes v = load_bytes(from);
      store_bytes(q[0] + 32 * c, even_words(v));
      store_bytes(q[1] + 32 * c, odd_words(v));
    };
    for (int c = 0; c + 2 <= columns; c += 2) widen(c, x.q + 32 * (i + c));
    if (columns % 2 == 1) {  // the bytes behind the last column may not be there
      std::byte last[64] = {};
      __builtin_memcpy(last, x.q + 32 * (i + columns - 1), 32);
      widen(columns - 1, last);
    }
    for (int p = 0; p < P; ++p) {
      alignas(64) std::byte w[2][8][64];
      Bytes codes[8];
      Sums::load_signed(planes + p * stride, codes);
      KVASIR_UNROLL(8)
      for (int g = 0; g < 8; ++g) {
        store_bytes(w[0][g], even_words(codes[g]));
        store_bytes(w[1][g], odd_words(codes[g]));
      }
      Scale scale;
      Sums::load_scale(head + p * stride, s, scale);
      constexpr int kColumns = 4;
      int c = 0;
      for (; c + kColumns <= columns; c += kColumns) wide_columns<P, kColumns>(w, scale, q, c, x, i + c, acc + c, p);
      for (; c < columns; ++c) wide_columns<P, 1>(w, scale, q, c, x, i + c, acc + c, p);
    }
  }

  template <int P, int C>
  KVASIR_INLINE void wide_columns(const std::byte (*w)[8][64], const Scale& scale,
                                  const std::byte (*q)[kTileColumns * 32], int column, const Int8Tile& x,
                                  std::int64_t i, float (*acc)[P][16], int p) {
    F32 sum[C];
    KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      I32 t[C];
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) t[c] = zero_i32();
      KVASIR_UNROLL(8)
      for (int g = kGroups * h; g < kGroups * (h + 1); ++g) KVASIR_UNROLL(2)
      for (int odd = 0; odd < 2; ++odd) {
        Bytes codes = load_bytes(w[odd][g]);
        pin(codes);  // or every use would load them again, and two loads a cycle are all there are
        KVASIR_UNROLL(4)
        for (int c = 0; c < C; ++c) {
          t[c] = dot_words(t[c], codes, broadcast4(q[odd] + 32 * (column + c) + 4 * g));
          pin(t[c]);
        }
      }
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c)
        sum[c] = h == 0 ? Sums::scaled(t[c], scale, 0) : add(sum[c], Sums::scaled(t[c], scale, 1));
    }
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) store(acc[c][p], Sums::fold(load(acc[c][p]), sum[c], scale, x, i + c));
  }
#endif
};

}  // namespace kvasir::kernel::KVASIR_TARGET
