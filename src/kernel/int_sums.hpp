// Products of one block of 32 elements: codes of 16-row panels (kernel/int_planes.hpp) with int8 activations, scaled
// and added to float accumulators. Included by the files of weights/quants, which are compiled per instruction set.
#pragma once

#include "kernel/activation_tile.hpp"
#include "kernel/int_planes.hpp"
#include "kernel/matmul.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

// The bytes that stand for codes in products, and their zero.
template <class F>
struct LevelTable {
  static constexpr int kZero = F::kZero, kMax = (1 << F::kBits) - 1;
};
// The zero of a table is a power of two: the one that activations are prepared for with VNNI, else the least.
template <HasLevels F>
struct LevelTable<F> {
  static_assert(F::kBits <= 4 && sizeof F::kLevels == 16);
  static constexpr int least() {
    int zero = 1, low = 0;
    for (const std::int8_t level : F::kLevels) low = level < low ? level : low;
    while (zero < -low) zero *= 2;
    return zero;
  }
  static constexpr int most() {
    int high = F::kLevels[0];
    for (const std::int8_t level : F::kLevels) high = level > high ? level : high;
    return high;
  }
  struct Sixteen {
    std::uint8_t at[16];
  };
  static constexpr Sixteen plus(int zero) {
    Sixteen table{};
    for (int i = 0; i < 16; ++i) table.at[i] = static_cast<std::uint8_t>(F::kLevels[i] + zero);
    return table;
  }
  static constexpr int kZero = KVASIR_HAS_VNNI ? 128 : least(), kMax = kZero + most();
  static constexpr Sixteen kUnsigned = plus(kZero), kSigned = plus(0);
};

template <class F>
struct IntSums : IntLayout<F> {
  static constexpr int kHalves = F::kScales;
  static constexpr int kGroups = 8 / kHalves;  // groups of 4 elements per scale

  // What is multiplied are unsigned bytes: the codes u as they are, or the levels of a table plus kZero. They stand for
  // u - kZero, and so that sums without VNNI fit 16 bits they are multiplied as u - kMiddle; what that leaves out is
  // added later:
  //   sum (u - kZero) q = sum (u - kMiddle) q + (kMiddle - kZero) sum q.
  using Table = LevelTable<F>;
  static constexpr int kZero = Table::kZero, kMaxCode = Table::kMax;
  static constexpr int kLargest = kZero > kMaxCode - kZero ? kZero : kMaxCode - kZero;  // of signed weights
  static constexpr int kLaneTerms = 16 / kHalves;  // products of one scale that meet in one 16-bit lane
  static constexpr int kMiddle = kZero == 0 && kMaxCode * 127 * kLaneTerms > 32767 ? (kMaxCode + 1) / 2 : kZero;
  static constexpr int kMiddleBits = __builtin_ctz(kMiddle | 256);
  // A pair of products u * q fits 16 bits, and the sum over a scale of (u - kMiddle) * q does.
  static constexpr bool kFits16 = kMaxCode * 127 * 2 <= 32767 && kMiddle * 127 * kLaneTerms <= 32767 &&
                                  (kMaxCode - kMiddle) * 127 * kLaneTerms <= 32767;
  // Where they do not (Q8_0, levels up to 127), without VNNI, products go through signed weights instead; and always
  // where those cost least.
  static constexpr bool kSigned = !KVASIR_HAS_VNNI && (KVASIR_SIGNED_DOTS || !kFits16);

  KVASIR_INLINE void load_unsigned(const std::byte* planes, Bytes (&w)[8]) {
    load_codes<F::kBits>(planes, w);
    if constexpr (HasLevels<F>)
      for (auto& v : w) v = lookup16(repeat16(Table::kUnsigned.at), v);
  }
  KVASIR_INLINE void load_signed(const std::byte* planes, Bytes (&w)[8]) {
    load_codes<F::kBits>(planes, w);
    if constexpr (HasLevels<F>)
      for (auto& v : w) v = lookup16(repeat16(Table::kSigned.at), v);
    else
      for (auto& v : w) v = sub8(v, set1_bytes(kZero));
  }

  // Integer sums to floats times d, rounded once (|t| < 2^20).
  // VNNI: sums are started at the bits of the float 1.5 * 2^23: read as a float, the sum t is then 1.5 * 2^23 + t,
  // exactly. One fma takes both conversion and product, fma(1.5 * 2^23 + t, d, -1.5 * 2^23 * d), because d (at most 19
  // significant bits) times 1.5 * 2^23 is exact. Elsewhere nothing could be started for free; + 0 keeps -0 away, which
  // the other form does not give either.
  static constexpr std::int32_t kSumStart = kIntSumStart;
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
#if KVASIR_HAS_VNNI
  KVASIR_INLINE void multiply_scale(Scale& s, float power_of_two) {  // exact
    const F32 by = set1(power_of_two);
    KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      s.d[h] = mul(s.d[h], by);
      s.offset[h] = mul(s.offset[h], by);
    }
  }
#endif
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

  // t[c][p] = kSumStart plus the exact integer sums over half h of (u - kZero) * q for columns i .. i + C - 1. With
  // kSigned w comes from load_signed, else from load_unsigned.
#if KVASIR_HAS_VNNI
  template <int P, int C>
  KVASIR_INLINE void sums(const Bytes (*w)[8], const Int8Tile& x, std::int64_t i, int h, I32 (*t)[P]) {
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) {
      const std::int32_t* q_sum = x.half_sum + 2 * (i + c);
      t[c][p] = set1_i32(kSumStart - kZero * (kHalves == 1 ? q_sum[0] + q_sum[1] : q_sum[h]));
      KVASIR_UNROLL(8)
      for (int g = kGroups * h; g < kGroups * (h + 1); ++g)
        t[c][p] = dot_us(t[c][p], w[p][g], broadcast4(x.q + 32 * (i + c) + 4 * g));
    }
  }
#else
  // Widening each product of bytes to 32 bits takes a second multiplication (by ones); where kFits16 it is needed once
  // per scale. On the way to the sum of (u - kMiddle) * q 16-bit lanes may wrap.
  template <int P, int C>
  KVASIR_INLINE void sums(const Bytes (*w)[8], const Int8Tile& x, std::int64_t i, int h, I32 (*t)[P]) {
    const std::int8_t* q = x.q + 32 * i;
#if KVASIR_LANE_SUMS
    if constexpr (kSigned && kLargest * 127 * kGroups <= 32767) {
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) {
        LaneSums sum = zero_lane_sums();
        KVASIR_UNROLL(8)
        for (int g = kGroups * h; g < kGroups * (h + 1); ++g)
          add_products(sum, w[p][g], broadcast4(q + 32 * c + 4 * g));
        t[c][p] = widened(sum);
      }
      return;
    }
#endif
    if constexpr (kSigned) {
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) t[c][p] = zero_i32();
      KVASIR_UNROLL(8)
      for (int g = kGroups * h; g < kGroups * (h + 1); ++g) KVASIR_UNROLL(4)
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
    for (int g = kGroups * h; g < kGroups * (h + 1); ++g) {
      Bytes codes[P];
      KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) {
        codes[p] = w[p][g];
        pin(codes[p]);  // or every use would load them again, and two loads a cycle are all there are
      }
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) {
        const Bytes a = broadcast4(q + 32 * c + 4 * g);
        KVASIR_UNROLL(4)
        for (int p = 0; p < P; ++p) {
          const Bytes pairs = multiply_pairs(codes[p], a);
          s[c][p] = g > kGroups * h ? add16(s[c][p], pairs) : kMiddle == 0 ? pairs : sub16(pairs, s[c][p]);
          pin(s[c][p]);
        }
      }
    }
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) {
      KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) t[c][p] = add_pairs(s[c][p], 1);
      if constexpr (kMiddle != kZero) {
        const I32 rest = add_pairs(pair_sum_of(x, i + c, h), kMiddle - kZero);
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

#if KVASIR_HAS_MMLA
  // The groups of a block as dot_columns takes them: rows 0 .. 7 of groups 2 j and 2 j + 1 in w[2 j], the others
  // behind.
  KVASIR_INLINE void pair_groups(Bytes (&w)[8]) {
    KVASIR_UNROLL(4)
    for (int g = 0; g < 8; g += 2) rows_of_eight(w[g], w[g + 1]);
  }
  // sums of signed weights from pair_groups, two columns at a time.
  template <int P, int C>
  KVASIR_INLINE void paired_sums(const Bytes (*w)[8], const Int8Tile& x, std::int64_t i, int h, I32 (*t)[P]) {
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; c += 2) {
      const std::int8_t* const q = x.q + 32 * (i + c);
      constexpr int kNext = C > 1 ? 32 : 0;  // one column: it is computed twice
      TwoColumns sum[P];
      KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) sum[p] = {zero_i32(), zero_i32()};
      KVASIR_UNROLL(4)
      for (int g = kGroups * h; g < kGroups * (h + 1); g += 2) KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) dot_columns(sum[p], w[p][g], w[p][g + 1], q + 4 * g, q + kNext + 4 * g);
      KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p) {
        t[c][p] = first_column(sum[p]);
        if constexpr (C > 1) t[c + 1][p] = second_column(sum[p]);
      }
    }
  }
#endif

  // acc[c][p] += product of one 32-block for P panels and C columns with signed q. kPaired: w comes from pair_groups,
  // and C is even or 1.
  template <int P, int C, bool kPaired = false>
  KVASIR_INLINE void product(const Bytes (*w)[8], const Scale* scale, const Int8Tile& x, std::int64_t i,
                             F32 (*acc)[P]) {
    F32 sum[C][P];
    KVASIR_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      I32 t[C][P];
#if KVASIR_HAS_MMLA
      if constexpr (kPaired) paired_sums<P, C>(w, x, i, h, t);
#endif
      if constexpr (!kPaired) sums<P, C>(w, x, i, h, t);
      KVASIR_UNROLL(4)
      for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
      for (int p = 0; p < P; ++p)
        sum[c][p] = h == 0 ? scaled(t[c][p], scale[p], 0) : add(sum[c][p], scaled(t[c][p], scale[p], 1));
    }
    KVASIR_UNROLL(4)
    for (int c = 0; c < C; ++c) KVASIR_UNROLL(4)
    for (int p = 0; p < P; ++p) acc[c][p] = fold(acc[c][p], sum[c][p], scale[p], x, i + c);
  }

  KVASIR_INLINE void store_rows(const MatmulArgs& args, std::int64_t panel, std::int64_t column, F32 acc) {
    const std::int64_t row = panel * kPanelRows;
    if constexpr (HasFactor<F>)
      acc = mul(acc, set1(IntLayout<F>::factor(args.panels + panel * IntLayout<F>::panel_bytes(args.k), args.k)));
    float* out = args.out + column * args.ldo + row;
    if (row + kPanelRows <= args.rows) {
      store(out, acc);
    } else {
      store_n(out, acc, static_cast<int>(args.rows - row));
    }
  }
};

}  // namespace kvasir::kernel::KVASIR_TARGET
