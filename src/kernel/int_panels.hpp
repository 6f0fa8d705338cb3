// Products of panels of quantised weights (kernel/int_planes.hpp) with int8 activations, written once for all formats.
// Included by the files of weights/quants, which are compiled per instruction set.
#pragma once

#include "kernel/activation_tile.hpp"
#include "kernel/int_planes.hpp"
#include "kernel/matmul.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

template <class F>
struct IntPanels : IntLayout<F> {
  using Layout = IntLayout<F>;
  using Layout::head_bytes, Layout::panel_bytes, Layout::kSubs, Layout::kPlanes;

  static constexpr int kHalves = F::kScales;
  static constexpr int kGroups = 8 / kHalves;  // groups of 4 elements per scale

  // The unsigned codes u are multiplied as u - kMiddle, and what that leaves out is added later:
  //   sum (u - kZero) q = sum (u - kMiddle) q + (kMiddle - kZero) sum q.
  // kMiddle is chosen so that without VNNI the sums of a scale fit 16 bits (below).
  static constexpr int kMaxCode = (1 << F::kBits) - 1;
  static constexpr int kLaneTerms = 16 / kHalves;  // products of one scale that meet in one 16-bit lane
  static constexpr int kMiddle = F::kZero == 0 && kMaxCode * 127 * kLaneTerms > 32767 ? (kMaxCode + 1) / 2 : F::kZero;
  static constexpr int kMiddleBits = __builtin_ctz(kMiddle | 256);
  // Codes above 127 saturate the 16-bit sums of pairs: without VNNI they go through signed weights instead.
  static constexpr bool kSigned = !KVASIR_HAS_VNNI && kMaxCode > 127;

  // Integer sums to floats times d, rounded once (|t| < 2^20).
  // VNNI: sums are started at the bits of the float 1.5 * 2^23: read as a float, the sum t is then 1.5 * 2^23 + t,
  // exactly. One fma takes both conversion and product, fma(1.5 * 2^23 + t, d, -1.5 * 2^23 * d), because d (at most 19
  // significant bits) times 1.5 * 2^23 is exact. Elsewhere nothing could be started for free; + 0 keeps -0 away, which
  // the other form does not give either.
  static constexpr std::int32_t kSumStart = KVASIR_HAS_VNNI ? 0x4b400000 : 0;
  struct Scale {
    F32 d[kHalves];
    F32 offset[kHalves];  // -1.5 * 2^23 * d
    F32 m[kHalves];
  };
  KVASIR_INLINE void load_scale(const std::byte* head, int sub, Scale& s) {
    F::load_head(head, sub, s.d, s.m);
#if KVASIR_HAS_VNNI
    KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) s.offset[h] = mul(s.d[h], set1(-12582912.0f));
#endif
  }
  KVASIR_INLINE F32 scaled(I32 t, const Scale& s, int h) {
#if KVASIR_HAS_VNNI
    return fma(bits_to_f32(t), s.d[h], s.offset[h]);
#else
    return fma(to_f32(t), s.d[h], zero());
#endif
  }

  // acc += the scaled sums of one 32-block, and its minima, for one column.
  KVASIR_INLINE F32 fold(F32 acc, F32 sum, const Scale& s, const Int8Tile& x, std::int64_t i) {
    acc = fma(sum, set1(x.d[i]), acc);
    if constexpr (F::kMin && kHalves == 1) acc = fma(s.m[0], set1(x.dsum[i]), acc);
    if constexpr (F::kMin && kHalves == 2) {
      acc = fma(s.m[0], set1(x.half_dsum[2 * i]), acc);
      acc = fma(s.m[1], set1(x.half_dsum[2 * i + 1]), acc);
    }
    return acc;
  }

  // t[c][p] = kSumStart plus the exact integer sums over half h of (u - kZero) * q for columns i .. i + C - 1, whose q
  // are signed. With kSigned w holds u - kZero, else u.
#if KVASIR_HAS_VNNI
  template <int P, int C>
  KVASIR_INLINE void sums(const Bytes (*w)[8], const Int8Tile& x, std::int64_t i, int h, I32 (*t)[P]) {
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) {
      const std::int32_t* q_sum = x.half_sum + 2 * (i + c);
      t[c][p] = set1_i32(kSumStart - F::kZero * (kHalves == 1 ? q_sum[0] + q_sum[1] : q_sum[h]));
      KVASIR_UNROLL(8)
      for (int g = kGroups * h; g < kGroups * (h + 1); ++g)
        t[c][p] = dot_us(t[c][p], w[p][g], broadcast4(x.q + 32 * (i + c) + 4 * g));
    }
  }
#else
  // Widening each product of bytes to 32 bits takes a second multiplication (by ones); for all types but Q8_0 it is
  // needed once per scale. A pair of products u * q fits 16 bits (u <= 63); the sum over a scale of (u - kMiddle) * q
  // does, too, and on the way to it 16-bit lanes may wrap.
  static_assert(kSigned || (kMaxCode * 127 * 2 <= 32767 && kMiddle * 127 * kLaneTerms <= 32767 &&
                            (kMaxCode - kMiddle) * 127 * kLaneTerms <= 32767));
  template <int P, int C>
  KVASIR_INLINE void sums(const Bytes (*w)[8], const Int8Tile& x, std::int64_t i, int h, I32 (*t)[P]) {
    const std::int8_t* q = x.q + 32 * i;
    if constexpr (kSigned) {
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) t[c][p] = zero_i32();
      KVASIR_UNROLL(8)
      for (int g = 0; g < 8; ++g) KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) {
        const Bytes a = broadcast4(q + 32 * c + 4 * g);
        KVASIR_UNROLL(4)
        for (int p = 0; p < P; ++p) t[c][p] = dot_ss(t[c][p], w[p][g], a);
      }
      return;
    }
    Bytes s[C][P];
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) {
      const Bytes first = kMiddle == 0 ? zero_bytes() : shift_left16<kMiddleBits>(pair_sum_of(x, i + c, h));
      KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) s[c][p] = first;
    }
    KVASIR_UNROLL(8)
    for (int g = kGroups * h; g < kGroups * (h + 1); ++g) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) {
      const Bytes a = broadcast4(q + 32 * c + 4 * g);
      KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) {
        const Bytes pairs = multiply_pairs(w[p][g], a);
        s[c][p] = g > kGroups * h ? add16(s[c][p], pairs) : kMiddle == 0 ? pairs : sub16(pairs, s[c][p]);
        pin(s[c][p]);
      }
    }
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) {
      KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) t[c][p] = add_pairs(s[c][p], 1);
      if constexpr (kMiddle != F::kZero) {
        const I32 rest = add_pairs(pair_sum_of(x, i + c, h), kMiddle - F::kZero);
        KVASIR_UNROLL(4)
        for (int p = 0; p < P; ++p) t[c][p] = add(t[c][p], rest);
      }
    }
  }

  // What the q of one scale add up to in the even and the odd 16-bit lanes.
  KVASIR_INLINE Bytes pair_sum_of(const Int8Tile& x, std::int64_t i, int h) {
    const std::int32_t* s = x.half_sum + 2 * i;
    return kHalves == 2 ? broadcast4(s + h) : add16(broadcast4(s), broadcast4(s + 1));
  }
#endif

  // acc[c][p] += product of one 32-block for P panels and C columns with signed q.
  template <int P, int C>
  KVASIR_INLINE void product(const Bytes (*w)[8], const Scale* scale, const Int8Tile& x, std::int64_t i,
                             F32 (*acc)[P]) {
    F32 sum[C][P];
    KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      I32 t[C][P];
      sums<P, C>(w, x, i, h, t);
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p)
        sum[c][p] = h == 0 ? scaled(t[c][p], scale[p], 0) : add(sum[c][p], scaled(t[c][p], scale[p], 1));
    }
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) acc[c][p] = fold(acc[c][p], sum[c][p], scale[p], x, i + c);
  }

  // P panels side by side past C columns: four streams of memory keep more of it in flight than one, and the hardware
  // prefetcher, which stops at every 4 KB page, is helped by prefetching kPrefetch bytes ahead in each.
  static constexpr int kPrefetch = 2048;

  template <int P, int C>
  static void gemv(const MatmulArgs& args, std::int64_t panel) {
    const std::int64_t stride = panel_bytes(args.k);
    const Int8Tile x = int8_tile(*args.x, 0);
    const std::byte* head = args.panels + panel * stride;
    const std::byte* planes = head + head_bytes(args.k);
    F32 acc[P][C][1];
    KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) acc[p][c][0] = zero();
    std::int64_t i = 0;
    for (std::int64_t b = 0; b < args.k / F::kBlock; ++b, head += F::kHeadBytes) {
      for (int s = 0; s < kSubs; ++s, i += C, planes += kPlanes) {
        KVASIR_UNROLL(4)
        for (int p = 0; p < P; ++p) {
          const std::byte* codes = planes + p * stride;
          KVASIR_UNROLL(8)
          for (int line = 0; line < kPlanes; line += 64) __builtin_prefetch(codes + kPrefetch + line, 0, 3);
          Bytes w[1][8];
          Scale scale;
          load_codes<F::kBits>(codes, w[0]);
          if constexpr (kSigned)
            for (auto& v : w[0]) v = sub8(v, set1_bytes(F::kZero));
          load_scale(head + p * stride, s, scale);
          product<1, C>(w, &scale, x, i, acc[p]);
        }
      }
    }
    KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) store_rows(args, panel + p, c, acc[p][c][0]);
  }

  template <int C>
  static void gemv_panels(const MatmulArgs& args) {
    constexpr int kStreams = 4;
    std::int64_t p = args.panel_begin;
    for (; p + kStreams <= args.panel_end; p += kStreams) gemv<kStreams, C>(args, p);
    for (; p < args.panel_end; ++p) gemv<1, C>(args, p);
  }

  KVASIR_INLINE void store_rows(const MatmulArgs& args, std::int64_t panel, std::int64_t column, F32 acc) {
    const std::int64_t row = panel * kPanelRows;
    float* out = args.out + column * args.ldo + row;
    if (row + kPanelRows <= args.rows) {
      store(out, acc);
    } else {
      store_n(out, acc, static_cast<int>(args.rows - row));
    }
  }

  // P panels against a whole tile of columns: the codes of a 32-block are unpacked once into registers and stream past
  // the tile's activations; accumulators (P x 64 columns x 64 bytes) live in the L1 cache. With VNNI the unsigned
  // operand is the activation (stored plus 128), so the correction -128 * sum(w) is per row and costs nothing per
  // column.
  template <int P>
  static void gemm(const MatmulArgs& args, std::int64_t panel, std::int64_t first) {
    const std::int64_t stride = panel_bytes(args.k);
    alignas(64) float acc[kTileColumns][P][16];
    const Int8Tile x = int8_tile(*args.x, first);
    const auto columns = static_cast<int>(x.columns);
    for (int c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) store(acc[c][p], zero());
    const std::byte* head = args.panels + panel * stride;
    const std::byte* planes = head + head_bytes(args.k);
    std::int64_t i = 0;
    for (std::int64_t b = 0; b < args.k / F::kBlock; ++b, head += F::kHeadBytes) {
      for (int s = 0; s < kSubs; ++s, i += columns, planes += kPlanes)
        block<P>(head, planes, s, stride, x, i, columns, acc);
    }
    for (int c = 0; c < columns; ++c)
      for (int p = 0; p < P; ++p) store_rows(args, panel + p, first + c, load(acc[c][p]));
  }

  template <int P>
  KVASIR_INLINE void block(const std::byte* head, const std::byte* planes, int s, std::int64_t stride,
                           const Int8Tile& x, std::int64_t i, int columns, float (*acc)[P][16]) {
    Bytes w[P][8];
    Scale scale[P];
    I32 correction[P][kHalves];
    for (int p = 0; p < P; ++p) {
      load_codes<F::kBits>(planes + p * stride, w[p]);
      load_scale(head + p * stride, s, scale[p]);
      if constexpr (KVASIR_HAS_VNNI || kSigned) {
        if constexpr (F::kZero != 0)
          for (auto& v : w[p]) v = sub8(v, set1_bytes(F::kZero));
      }
#if KVASIR_HAS_VNNI
      for (int h = 0; h < kHalves; ++h) {
        I32 sum = zero_i32();
        for (int g = 0; g < kGroups; ++g) sum = dot_us(sum, set1_bytes(128), w[p][kGroups * h + g]);
        correction[p][h] = sub(set1_i32(kSumStart), sum);
      }
#endif
    }
    int c = 0;
#if KVASIR_HAS_VNNI
    // Two panels times kColumns columns are eight independent chains of dot products: one chain alone would fill the
    // scheduler with instructions that wait 5 cycles for their predecessor.
    constexpr int kColumns = kHalves == 1 ? 4 : 2;
    for (; c + kColumns <= columns; c += kColumns) columns_of<P, kColumns>(w, scale, correction, x, i + c, acc + c);
    for (; c < columns; ++c) columns_of<P, 1>(w, scale, correction, x, i + c, acc + c);
#else
    // Eight accumulators of 16-bit sums, of the 16 registers of AVX2 as two per vector.
    constexpr int kColumns = kHalves == 1 ? 4 : 2;
    for (; c + kColumns <= columns; c += kColumns) columns_of<P, kColumns>(w, scale, x, i + c, acc + c);
    for (; c < columns; ++c) columns_of<P, 1>(w, scale, x, i + c, acc + c);
    (void)correction;
#endif
  }

#if KVASIR_HAS_VNNI
  // P panels times C columns of one 32-block, activations unsigned.
  template <int P, int C>
  KVASIR_INLINE void columns_of(const Bytes (*w)[8], const Scale* scale, const I32 (*correction)[kHalves],
                                const Int8Tile& x, std::int64_t i, float (*acc)[P][16]) {
    I32 t[C][P][kHalves];
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) t[c][p][h] = correction[p][h];
    const std::int8_t* q = x.q + 32 * i;
    KVASIR_UNROLL(8)
    for (int g = 0; g < 8; ++g) KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) {
      const Bytes a = broadcast4(q + 32 * c + 4 * g);
      KVASIR_UNROLL(2)
      for (int p = 0; p < P; ++p) t[c][p][g / kGroups] = dot_us(t[c][p][g / kGroups], a, w[p][g]);
    }
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) {
      F32 sum = scaled(t[c][p][0], scale[p], 0);
      if constexpr (kHalves == 2) sum = add(sum, scaled(t[c][p][1], scale[p], 1));
      store(acc[c][p], fold(load(acc[c][p]), sum, scale[p], x, i + c));
    }
  }
#else
  template <int P, int C>
  KVASIR_INLINE void columns_of(const Bytes (*w)[8], const Scale* scale, const Int8Tile& x, std::int64_t i,
                                float (*acc)[P][16]) {
    F32 a[C][P];
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) a[c][p] = load(acc[c][p]);
    product<P, C>(w, scale, x, i, a);
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(2)
    for (int p = 0; p < P; ++p) store(acc[c][p], a[c][p]);
  }
#endif

  static void matmul(const MatmulArgs& args) {
    switch (args.x->many() ? 0 : args.x->n) {
      case 1:
        return gemv_panels<1>(args);
      case 2:
        return gemv_panels<2>(args);
      case 3:
        return gemv_panels<3>(args);
      case 4:
        return gemv_panels<4>(args);
      default:
        break;
    }
    // Tile by tile, so that its activations stay in the L2 cache for all panels of the call.
    constexpr int kPanels = KVASIR_VECTOR_REGISTERS >= 32 ? 2 : 1;
    for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
      std::int64_t p = args.panel_begin;
      for (; p + kPanels <= args.panel_end; p += kPanels) gemm<kPanels>(args, p, first);
      for (; p < args.panel_end; ++p) gemm<1>(args, p, first);
    }
  }

  static constexpr PanelFormat format() {
    return {ActivationKind::kInt8, F::kBlock, panel_bytes, Layout::pack, Layout::unpack_row, matmul};
  }
};

}  // namespace kvasir::kernel::KVASIR_TARGET
