// Products with packed matrices (kv/packed_layout.hpp), computed in integers on the packed bytes. For sources compiled
// per instruction set.
//
// A map says what a code stands for:
//   Codes         itself; with 8 bits code - 128
//   Table<B, M>   table[code], integers 0 .. M <= 127
// Sums are exact, so every instruction set gives the same. Offsets belong to the caller: for values s * (code - zero)
// it is s * (sum - zero * sum of x).
//
// Unsigned tables, because without VNNI a byte product takes one unsigned operand, and making signed values unsigned
// costs an operation per product. Smaller is faster there: values up to 31 let eight products be added in 16 bits
// before they are widened, up to 63 four, above that two (3 instructions per 32 products, not 2.25). A codec that
// encodes to the nearest entry of its integer table loses next to nothing by M = 31 or 63 against real numbers.
#pragma once

#include "kernel/interleave.hpp"
#include "kv/packed_unit.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// Query or weight rows that one call of panel_dots takes.
inline constexpr int kPackedRows = KVASIR_VECTOR_REGISTERS >= 32 ? 8 : 4;

struct Codes {
  template <int B>
  static constexpr bool kSigned = B == 8;
  template <int B>
  static constexpr int kMax = (1 << B) - 1;  // unless signed

  template <int j, int B>
  inline __attribute__((always_inline)) Bytes value(const Unit<B>& unit) const {
    return unit.template code<j>();
  }
};

// B <= 5. For 2 bits the index is two codes, of which either table ignores one: that takes less than separating them.
template <int kBits, int kLargest>
struct Table {
  static_assert(kBits <= 5 && kLargest <= 127);
  template <int B>
  static constexpr bool kSigned = false;
  template <int B>
  static constexpr int kMax = kLargest;

  Bytes t[2];

  // values: 2^B integers 0 .. M
  KVASIR_INLINE Table load(const std::uint8_t* values) {
    constexpr int kCount = 1 << kBits;
    std::uint8_t bytes[32];
    for (int i = 0; i < 32; ++i) bytes[i] = kBits == 2 && i >= 16 ? values[(i & 15) >> 2] : values[i % kCount];
    return {{repeat16(bytes), repeat16(bytes + 16)}};
  }

  template <int j, int B>
  inline __attribute__((always_inline)) Bytes value(const Unit<B>& unit) const {
    static_assert(B == kBits);
    if constexpr (B == 2) return lookup16(t[j % 2], unit.template code_pair<j / 2>());
    if constexpr (B == 5) return lookup32(t[0], t[1], unit.template code<j>());
    return lookup16(t[0], unit.template code<j>());
  }
};

// What a sum over the rows whose x add up to x_sum has to start from.
template <int B, class Map>
KVASIR_INLINE I32 dots_start([[maybe_unused]] std::int32_t x_sum) {
  if constexpr (KVASIR_HAS_VNNI && Map::template kSigned<B>) return set1_i32(-128 * x_sum);
  return zero_i32();
}

// How one group of four rows is added up. kSteps: groups that a sum in 16 bits can hold (0: not summed there).
template <int B, class Map>
struct Step {
  static constexpr bool kSigned = Map::template kSigned<B>;
  static constexpr int kFits = kSigned ? 0 : kPairSum / (2 * 127 * Map::template kMax<B>);
  static constexpr bool kPaired = !KVASIR_HAS_VNNI && kFits >= 2;
  static constexpr int kSteps = kPaired ? kFits : 0;

  KVASIR_INLINE I32 dot(I32 acc, Bytes u, Bytes x) {
    if constexpr (!kSigned) return dot_us(acc, u, x);
    if constexpr (KVASIR_HAS_VNNI) return dot_us(acc, xor_(u, set1_bytes(128)), x);  // dots_start takes 128 x off
    return dot_ss(acc, u, x);
  }
};

// Sums of word j of a unit for G rows; x at the first of the word's four columns.
template <int j, class S, int B, class Map, int G>
KVASIR_INLINE void add_word(const Unit<B>& unit, const Map& map, const std::int8_t* x, std::ptrdiff_t stride,
                            I32 (&sum)[G]) {
  const Bytes u = map.template value<j>(unit);
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    sum[g] = S::dot(sum[g], u, broadcast4(x + g * stride + 4 * j));
    pin(sum[g]);
  }
}
template <int j, class S, int B, class Map, int G>
KVASIR_INLINE void add_word(const Unit<B>& unit, const Map& map, const std::int8_t* x, std::ptrdiff_t stride,
                            Pairs (&sum)[G]) {
  const Bytes u = map.template value<j>(unit);
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    sum[g] = dot_pairs(sum[g], u, broadcast4(x + g * stride + 4 * j));
    pin(sum[g]);
  }
}

template <int G>
KVASIR_INLINE void widen(Pairs (&pairs)[G], I32 (&acc)[G]) {
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    acc[g] = add_pairs(acc[g], pairs[g]);
    pairs[g] = zero_pairs();
  }
}

template <int B>
KVASIR_INLINE void prefetch_unit(const std::byte* p) {
  constexpr int kBytes = packed_unit_bytes(B);
  KVASIR_UNROLL(4)
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

// acc[g][lane] += sum over depth in [begin, end) of x[g * stride + depth] * map(code[depth][lane]), for the 16 lanes of
// a panel. Start acc from dots_start. REQUIRES: begin and end multiples of 16, |x| <= 127, G <= kPackedRows. `next` is
// prefetched as far as `panel` is read: the panel that will be read after this one (it may lie anywhere).
template <int B, class Map, int G>
KVASIR_INLINE void panel_dots(const std::byte* panel, int begin, int end, const Map& map, const std::int8_t* x,
                              std::ptrdiff_t stride, const std::byte* next, I32 (&acc)[G]) {
  using S = Step<B, Map>;
  constexpr int kBytes = packed_unit_bytes(B);
  const auto at = [](int k) __attribute__((always_inline)) {
    return static_cast<std::ptrdiff_t>(k / kPackedUnit) * kBytes;
  };
  if constexpr (S::kPaired) {
    constexpr int kDepth = S::kSteps / 4 * kPackedUnit;
    Pairs sum[G];
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) sum[g] = zero_pairs();
    for (int k = begin; k < end;) {
      const int stop = kDepth == 0 || end - k < kDepth ? end : k + kDepth;
      KVASIR_UNROLL(1)
      for (; k < stop; k += kPackedUnit) {
        prefetch_unit<B>(next + at(k));
        const auto unit = Unit<B>::load(panel + at(k));
        add_word<0, S>(unit, map, x + k, stride, sum);
        add_word<1, S>(unit, map, x + k, stride, sum);
        if constexpr (kDepth == 0) widen(sum, acc);
        add_word<2, S>(unit, map, x + k, stride, sum);
        add_word<3, S>(unit, map, x + k, stride, sum);
        if constexpr (kDepth == 0) widen(sum, acc);
      }
      if constexpr (kDepth != 0) widen(sum, acc);
    }
  } else {
    // Few rows: several chains of sums, because one vpdpbusd waits 5 cycles for the one before.
    constexpr int kChains = KVASIR_HAS_VNNI ? (G == 1 ? 4 : G <= 4 ? 2 : 1) : 1;
    I32 more[kChains][G];
    KVASIR_UNROLL(4)
    for (int i = 0; i < kChains; ++i) KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) more[i][g] = i == 0 ? acc[g] : zero_i32();
    KVASIR_UNROLL(1)
    for (int k = begin; k < end; k += kPackedUnit) {
      prefetch_unit<B>(next + at(k));
      const auto unit = Unit<B>::load(panel + at(k));
      add_word<0, S>(unit, map, x + k, stride, more[0]);
      add_word<1, S>(unit, map, x + k, stride, more[1 % kChains]);
      add_word<2, S>(unit, map, x + k, stride, more[2 % kChains]);
      add_word<3, S>(unit, map, x + k, stride, more[3 % kChains]);
    }
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) {
      acc[g] = more[0][g];
      KVASIR_UNROLL(4)
      for (int i = 1; i < kChains; ++i) acc[g] = add(acc[g], more[i][g]);
    }
  }
}

// row[i] = map(code) as float32 for the 16 lanes of a panel at depth 4 * quad + i.
template <int B, int j, class Map>
KVASIR_INLINE void word_floats(const Unit<B>& unit, const Map& map, F32 (&row)[4]) {
  const Bytes u = map.template value<j>(unit);
  if constexpr (Map::template kSigned<B>) {
    row[0] = to_f32(signed_byte<0>(u));
    row[1] = to_f32(signed_byte<1>(u));
    row[2] = to_f32(signed_byte<2>(u));
    row[3] = to_f32(signed_byte<3>(u));
  } else {
    row[0] = to_f32(byte<0>(u));
    row[1] = to_f32(byte<1>(u));
    row[2] = to_f32(byte<2>(u));
    row[3] = to_f32(byte<3>(u));
  }
}

// Calls f(depth, row) for depth in [begin, end), in order; row is an F32 of the 16 lanes' map(code). REQUIRES: begin a
// multiple of 16, end of 4.
template <int B, class Map, class F>
KVASIR_INLINE void panel_floats(const std::byte* panel, int begin, int end, const Map& map, F&& f) {
  F32 row[4];
  const auto four = [&](int k) __attribute__((always_inline)) {
    f(k, row[0]);
    f(k + 1, row[1]);
    f(k + 2, row[2]);
    f(k + 3, row[3]);
  };
  KVASIR_UNROLL(1)
  for (int k = begin; k < end; k += kPackedUnit) {
    const auto unit = Unit<B>::load(panel + static_cast<std::ptrdiff_t>(k / kPackedUnit) * packed_unit_bytes(B));
    word_floats<B, 0>(unit, map, row);
    four(k);
    if (k + 4 >= end) break;
    word_floats<B, 1>(unit, map, row);
    four(k + 4);
    if (k + 8 >= end) break;
    word_floats<B, 2>(unit, map, row);
    four(k + 8);
    if (k + 12 >= end) break;
    word_floats<B, 3>(unit, map, row);
    four(k + 12);
  }
}

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
