// Products with packed matrices (kv/families/packed/layout.hpp), computed in integers on the packed bytes. For sources
// compiled per instruction set.
//
// A map says what a code stands for:
//   Codes         itself; with 8 bits code - 128
//   Table<B, M>   table[code], integers 0 .. M <= 127
// Sums are exact, so every instruction set gives the same. Offsets belong to the caller: for values s * (code - zero)
// it is s * (sum - zero * sum of x).
//
// Unsigned tables, because without VNNI a byte product takes one unsigned operand; signed bytes (8 bits) are multiplied
// as 16-bit numbers there. Smaller is faster there: values up to 31 let eight products be added in 16 bits
// before they are widened, up to 63 four, above that two (3 instructions per 32 products, not 2.25). A codec that
// encodes to the nearest entry of its integer table loses next to nothing by M = 31 or 63 against real numbers.
#pragma once

#include "kv/families/packed/unit.hpp"
#include "kv/families/row_blocks.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

struct Codes {
  template <int B>
  static constexpr bool kSigned = B == 8;
  template <int B>
  static constexpr int kMax = (1 << B) - 1;  // unless signed

  template <int j, int B, class V, int h>
  inline __attribute__((always_inline)) V value(const Unit<B, V, h>& unit) const {
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

  template <int j, int B, class V, int h>
  inline __attribute__((always_inline)) V value(const Unit<B, V, h>& unit) const {
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

// How rows are added up, four at a time: words of a unit.
template <int B, class Map>
struct Step {
  static constexpr bool kSigned = Map::template kSigned<B>;
  // Without VNNI signed bytes become 16-bit numbers once for all rows of x: cheaper than making one operand unsigned.
  static constexpr bool kWide = kSigned && KVASIR_STEPWISE_DOTS;
  // Words that a sum in 16 bits can hold; worth it from two on.
  static constexpr int kFits = kSigned ? 0 : kPairSum / (2 * 127 * Map::template kMax<B>);
  static constexpr bool kPaired = KVASIR_STEPWISE_DOTS && kFits >= 2;

  KVASIR_INLINE LanePart dot(LanePart acc, BytePart u, BytePart x) {
    if constexpr (!kSigned) return dot_us(acc, u, x);
#if KVASIR_HAS_VNNI
    return dot_us(acc, xor_(u, set1_bytes(128)), x);  // dots_start takes 128 x off
#elif !KVASIR_STEPWISE_DOTS
    return dot_ss(acc, u, x);
#endif
  }
};

// Fetches what part h of a pass over a unit stands for in the page that is read next.
template <int B, int h>
KVASIR_INLINE void prefetch_unit(const std::byte* p) {
  constexpr int kBytes = packed_unit_bytes(B) / kParts;
  KVASIR_UNROLL(4)
  for (int i = 0; i < kBytes; i += 64) fetch_ahead(p + h * kBytes + i);
}

// Rows of x as they are: four(g, k) is x[g][k .. k + 3] in all lanes.
struct PlainRows {
  const std::int8_t* x;
  std::ptrdiff_t stride;
  inline __attribute__((always_inline)) BytePart four(int g, int k) const {
    return broadcast4_part(x + g * stride + k);
  }
};

// Sums of word j for G rows; the unit begins at column k.
template <int j, class S, class Map, class U, class X, int G>
KVASIR_INLINE void add_word(const U& unit, const Map& map, const X& x, int k, LanePart (&sum)[G]) {
  const BytePart u = map.template value<j>(unit);
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    sum[g] = S::dot(sum[g], u, x.four(g, k + 4 * j));
    pin(sum[g]);
  }
}

template <int B, class Map, int G, int h, class X>
KVASIR_INLINE void add_widened(const std::byte* panel, int begin, int end, const Map& map, const X& x,
                               const std::byte* next, LanePart (&acc)[G]) {
  using S = Step<B, Map>;
  constexpr int kBytes = packed_unit_bytes(B);
  // Few rows: several chains of sums, because one vpdpbusd waits 5 cycles for the one before.
  constexpr int kChains = KVASIR_HAS_VNNI ? (G == 1 ? 4 : G <= 4 ? 2 : 1) : 1;
  LanePart more[kChains][G];
  KVASIR_UNROLL(4)
  for (int i = 0; i < kChains; ++i) KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) more[i][g] = i == 0 ? acc[g] : zero_lanes();
  KVASIR_UNROLL(1)
  for (int k = begin; k < end; k += kPackedUnit, panel += kBytes, next += kBytes) {
    prefetch_unit<B, h>(next);
    const auto u = Unit<B, BytePart, h>::load(panel);
    add_word<0, S>(u, map, x, k, more[0]);
    add_word<1, S>(u, map, x, k, more[1 % kChains]);
    add_word<2, S>(u, map, x, k, more[2 % kChains]);
    add_word<3, S>(u, map, x, k, more[3 % kChains]);
  }
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    acc[g] = more[0][g];
    KVASIR_UNROLL(4)
    for (int i = 1; i < kChains; ++i) acc[g] = add(acc[g], more[i][g]);
  }
}

#if KVASIR_STEPWISE_DOTS
template <int j, bool kFirst, class Map, class U, class X, int G>
KVASIR_INLINE void add_word(const U& unit, const Map& map, const X& x, int k, PairPart (&sum)[G]) {
  const BytePart u = map.template value<j>(unit);
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    const BytePart y = x.four(g, k + 4 * j);
    sum[g] = kFirst ? first_pairs(u, y) : dot_pairs(sum[g], u, y);
    pin(sum[g]);
  }
}
template <int G>
KVASIR_INLINE void widen(const PairPart (&pairs)[G], LanePart (&acc)[G]) {
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    acc[g] = add_pairs(acc[g], pairs[g]);
    pin(acc[g]);
  }
}

// One unit of values so small that several products are added in 16 bits before they are widened. kFirst: `sum` starts
// here.
template <bool kFirst, int kFits, class Map, class U, class X, int G>
KVASIR_INLINE void add_unit(const U& unit, const Map& map, const X& x, int k, PairPart (&sum)[G], LanePart (&acc)[G]) {
  add_word<0, kFirst>(unit, map, x, k, sum);
  add_word<1, false>(unit, map, x, k, sum);
  if constexpr (kFits < 4) widen(sum, acc);
  add_word<2, (kFits < 4)>(unit, map, x, k, sum);
  add_word<3, false>(unit, map, x, k, sum);
}

template <int B, class Map, int G, int h, class X>
KVASIR_INLINE void add_paired(const std::byte* panel, int begin, int end, const Map& map, const X& x,
                              const std::byte* next, LanePart (&acc)[G]) {
  using U = Unit<B, BytePart, h>;
  constexpr int kFits = Step<B, Map>::kFits;
  constexpr int kBytes = packed_unit_bytes(B);
  PairPart sum[G];
  int k = begin;
  if constexpr (kFits >= 8) {
    KVASIR_UNROLL(1)
    for (; k + 2 * kPackedUnit <= end; k += 2 * kPackedUnit) {
      prefetch_unit<B, h>(next);
      add_unit<true, kFits>(U::load(panel), map, x, k, sum, acc);
      prefetch_unit<B, h>(next + kBytes);
      add_unit<false, kFits>(U::load(panel + kBytes), map, x, k + kPackedUnit, sum, acc);
      widen(sum, acc);
      panel += 2 * kBytes;
      next += 2 * kBytes;
    }
  }
  KVASIR_UNROLL(1)
  for (; k < end; k += kPackedUnit, panel += kBytes, next += kBytes) {
    prefetch_unit<B, h>(next);
    add_unit<true, kFits>(U::load(panel), map, x, k, sum, acc);
    widen(sum, acc);
  }
}

// Rows of x as 16-bit numbers: of four consecutive ones the first and third in a word of `even`, the others of `odd`.
// Made once for all panels of a product. REQUIRES: depth <= kWideDepth, a multiple of 16.
inline constexpr int kWideDepth = 1024;
template <int G>
struct WideRows {
  alignas(64) std::int32_t even[G][kWideDepth / 4 + 16];  // not a whole number of 4 KiB apart
  alignas(64) std::int32_t odd[G][kWideDepth / 4 + 16];

  void spread(const std::int8_t* x, std::ptrdiff_t stride, int depth) {
    for (int g = 0; g < G; ++g) {
      KVASIR_UNROLL(1)
      for (int k = 0; k < depth; k += 16) spread_words(x + g * stride + k, even[g] + k / 4, odd[g] + k / 4);
    }
  }
};

// All parts at once: they share the broadcasts of x, which are what this loop has most of.
template <int j, class Map, class U, int G>
KVASIR_INLINE void add_wide_word(const U& low, const U& high, const Map& map, const WideRows<G>& x, int at,
                                 LanePart (&acc)[kParts * G]) {
  const BytePart a = map.template value<j>(low);
  const BytePart b = map.template value<j>(high);
  const BytePart even[2] = {even_words(a), even_words(b)};
  const BytePart odd[2] = {odd_words(a), odd_words(b)};
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    const BytePart y = broadcast4_part(x.even[g] + at + j);
    KVASIR_UNROLL(2)
    for (int h = 0; h < kParts; ++h) {
      acc[kParts * g + h] = dot_words(acc[kParts * g + h], even[h], y);
      pin(acc[kParts * g + h]);
    }
  }
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    const BytePart y = broadcast4_part(x.odd[g] + at + j);
    KVASIR_UNROLL(2)
    for (int h = 0; h < kParts; ++h) {
      acc[kParts * g + h] = dot_words(acc[kParts * g + h], odd[h], y);
      pin(acc[kParts * g + h]);
    }
  }
}

// panel_dots from wide rows, which start at depth 0.
template <int B, class Map, int G>
KVASIR_INLINE void wide_dots(const std::byte* panel, int begin, int end, const Map& map, const WideRows<G>& x,
                             const std::byte* next, I32 (&acc)[G]) {
  constexpr int kBytes = packed_unit_bytes(B);
  LanePart part[kParts * G];
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    part[kParts * g] = part_of<0>(acc[g]);
    part[kParts * g + kParts - 1] = part_of<kParts - 1>(acc[g]);
  }
  panel += static_cast<std::ptrdiff_t>(begin / kPackedUnit) * kBytes;
  next += static_cast<std::ptrdiff_t>(begin / kPackedUnit) * kBytes;
  KVASIR_UNROLL(1)
  for (int k = begin; k < end; k += kPackedUnit, panel += kBytes, next += kBytes) {
    prefetch_unit<B, 0>(next);
    if constexpr (kParts == 2) prefetch_unit<B, kParts - 1>(next);
    const auto low = Unit<B, BytePart, 0>::load(panel);
    const auto high = Unit<B, BytePart, 0>::load(panel + (kParts - 1) * 32);
    add_wide_word<0>(low, high, map, x, k / 4, part);
    add_wide_word<1>(low, high, map, x, k / 4, part);
    add_wide_word<2>(low, high, map, x, k / 4, part);
    add_wide_word<3>(low, high, map, x, k / 4, part);
  }
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) {
    set_part<0>(acc[g], part[kParts * g]);
    set_part<kParts - 1>(acc[g], part[kParts * g + kParts - 1]);
  }
}
#endif

template <int B, class Map, int G, int h, class X>
KVASIR_INLINE void byte_part(const std::byte* panel, int begin, int end, const Map& map, const X& x,
                             const std::byte* next, I32 (&acc)[G]) {
  LanePart part[G];
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) part[g] = part_of<h>(acc[g]);
#if KVASIR_STEPWISE_DOTS
  if constexpr (Step<B, Map>::kPaired) add_paired<B, Map, G, h>(panel, begin, end, map, x, next, part);
#endif
  if constexpr (!Step<B, Map>::kPaired) add_widened<B, Map, G, h>(panel, begin, end, map, x, next, part);
  KVASIR_UNROLL(8)
  for (int g = 0; g < G; ++g) set_part<h>(acc[g], part[g]);
}
template <int B, class Map, int G, class X>
KVASIR_INLINE void byte_dots(const std::byte* panel, int begin, int end, const Map& map, const X& x,
                             const std::byte* next, I32 (&acc)[G]) {
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(begin / kPackedUnit) * packed_unit_bytes(B);
  byte_part<B, Map, G, 0>(panel + at, begin, end, map, x, next + at, acc);
  if constexpr (kParts == 2) byte_part<B, Map, G, kParts - 1>(panel + at, begin, end, map, x, next + at, acc);
}

// Rows of x, |x| <= 127, as the loops for B and Map want them: x[g * stride + depth]. May refer to x.
enum class LeftForm { kPlain, kSpread, kWide };
template <int B, class Map>
inline constexpr LeftForm kLeftForm = Step<B, Map>::kWide ? LeftForm::kWide : LeftForm::kPlain;
// For rows that many pages are multiplied by.
template <int B, class Map>
inline constexpr LeftForm kKeptForm = Step<B, Map>::kPaired&& kParts == 2 ? LeftForm::kSpread : kLeftForm<B, Map>;

template <int B, class Map, int G, LeftForm = kLeftForm<B, Map>>
struct LeftRows : PlainRows {
  KVASIR_INLINE LeftRows of(const std::int8_t* rows, std::ptrdiff_t pitch, int) { return {{rows, pitch}}; }
};
// Every four bytes in all lanes already: read as operands of products they cost no instructions of their own, and
// instructions are what limits these loops (for 16 columns of four rows and 4 bits 71 to 75 instead of 77 to 81).
// Spreading takes as long as it saves with one page of 64 values.
template <int B, class Map, int G>
struct LeftRows<B, Map, G, LeftForm::kSpread> {
  static constexpr int kDepth = 1024;
  alignas(64) std::byte lanes[G][kDepth / 4 * sizeof(BytePart) + 64];  // not a whole number of 4 KiB apart
  inline __attribute__((always_inline)) BytePart four(int g, int k) const {
    return load_as<BytePart>(lanes[g] + k / 4 * static_cast<int>(sizeof(BytePart)));
  }
  void spread(const std::int8_t* rows, std::ptrdiff_t pitch, int depth) {
    for (int g = 0; g < G; ++g) {
      KVASIR_UNROLL(4)
      for (int k = 0; k < depth; k += 4)
        store_part(lanes[g] + k / 4 * static_cast<int>(sizeof(BytePart)), broadcast4_part(rows + g * pitch + k));
    }
  }
  KVASIR_INLINE LeftRows of(const std::int8_t* rows, std::ptrdiff_t pitch, int depth) {
    LeftRows to;
    to.spread(rows, pitch, depth);
    return to;
  }
};
#if KVASIR_STEPWISE_DOTS
template <int B, class Map, int G>
struct LeftRows<B, Map, G, LeftForm::kWide> {
  WideRows<G> wide;
  KVASIR_INLINE LeftRows of(const std::int8_t* rows, std::ptrdiff_t pitch, int depth) {
    LeftRows to;
    to.wide.spread(rows, pitch, depth);
    return to;
  }
};
#endif

// acc[g][lane] += sum over depth in [begin, end) of x[g][depth] * map(code[depth][lane]), for the 16 lanes of a panel.
// Start acc from dots_start. REQUIRES: begin and end multiples of 16, G <= kRowBlock. `next` is prefetched as far as
// `panel` is read: the panel that will be read after this one (it may lie anywhere).
template <int B, class Map, int G, LeftForm form>
KVASIR_INLINE void panel_dots(const std::byte* panel, int begin, int end, const Map& map,
                              const LeftRows<B, Map, G, form>& rows, const std::byte* next, I32 (&acc)[G]) {
  if constexpr (form == LeftForm::kWide) {
#if KVASIR_STEPWISE_DOTS
    wide_dots<B, Map, G>(panel, begin, end, map, rows.wide, next, acc);
#endif
  } else {
    byte_dots<B, Map, G>(panel, begin, end, map, rows, next, acc);
  }
}
// For one panel.
template <int B, class Map, int G>
KVASIR_INLINE void panel_dots(const std::byte* panel, int begin, int end, const Map& map, const std::int8_t* x,
                              std::ptrdiff_t stride, const std::byte* next, I32 (&acc)[G]) {
  if constexpr (kLeftForm<B, Map> == LeftForm::kWide) {
    panel_dots<B>(panel, begin, end, map, LeftRows<B, Map, G>::of(x, stride, end), next, acc);
  } else {
    byte_dots<B, Map, G>(panel, begin, end, map, PlainRows{x, stride}, next, acc);
  }
}

// What the codes of a panel stand for, a byte each, for depth in [begin, end): word j of unit u to to + 64 * (4 u + j).
// REQUIRES: begin and end multiples of 16.
template <int B, class Map>
KVASIR_INLINE void unpack_panel(const std::byte* panel, int begin, int end, const Map& map, std::byte* to) {
  KVASIR_UNROLL(1)
  for (int u = begin / kPackedUnit; u < end / kPackedUnit; ++u) {
    const auto unit = Unit<B>::load(panel + static_cast<std::ptrdiff_t>(u) * packed_unit_bytes(B));
    std::byte* const words = to + static_cast<std::ptrdiff_t>(u) * packed_unit_bytes(8);
    store_bytes(words, map.template value<0>(unit));
    store_bytes(words + 64, map.template value<1>(unit));
    store_bytes(words + 128, map.template value<2>(unit));
    store_bytes(words + 192, map.template value<3>(unit));
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

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
