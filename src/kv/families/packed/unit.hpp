// Units of a packed matrix (kv/families/packed/layout.hpp) in registers. For sources compiled per instruction set.
#pragma once

#include "kv/families/packed/layout.hpp"
#include "simd/part.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// Unit<B, V, h>: code<j>() is word j of a unit; 8 bits: signed. V is Bytes, or BytePart for part h of the words.
// store() writes a unit from its words of codes.
template <int B, class V = Bytes, int h = 0>
struct Unit;

template <class V, int h>
struct Unit<8, V, h> {
  const std::byte* p;

  KVASIR_INLINE Unit load(const std::byte* at) { return {at + h * static_cast<int>(sizeof(V))}; }
  template <int j>
  inline __attribute__((always_inline)) V code() const {
    return load_as<V>(p + 64 * j);
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    for (int j = 0; j < 4; ++j) store_bytes(to + 64 * j, xor_(w[j], set1_bytes(128)));
  }
};

template <class V, int h>
struct Unit<4, V, h> {
  const std::byte* p;

  KVASIR_INLINE Unit load(const std::byte* at) { return {at + h * static_cast<int>(sizeof(V))}; }
  template <int j>
  inline __attribute__((always_inline)) V code() const {
    const V x = load_as<V>(p + 64 * (j / 2));
    if constexpr (j % 2 == 0) return keep(x, 15);
    return keep(shift_right16<4>(x), 15);
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    store_bytes(to, or_(w[0], shift_left16<4>(w[1])));
    store_bytes(to + 64, or_(w[2], shift_left16<4>(w[3])));
  }
};

template <class V, int h>
struct Unit<2, V, h> {
  V x;

  KVASIR_INLINE Unit load(const std::byte* at) { return {load_as<V>(at + h * static_cast<int>(sizeof(V)))}; }
  template <int j>
  inline __attribute__((always_inline)) V code() const {
    if constexpr (j == 0) return keep(x, 3);
    return keep(shift_right16<2 * j>(x), 3);
  }
  // c0 | c1 << 2 (half 0) or c2 | c3 << 2 (half 1)
  template <int half>
  inline __attribute__((always_inline)) V code_pair() const {
    if constexpr (half == 0) return keep(x, 15);
    return keep(shift_right16<4>(x), 15);
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes first = or_(w[0], shift_left16<2>(w[1]));
    store_bytes(to, or_(first, shift_left16<4>(or_(w[2], shift_left16<2>(w[3])))));
  }
};

template <class V, int h>
struct Unit<1, V, h> {
  V x;

  KVASIR_INLINE Unit load(const std::byte* at) { return {load_unfolded_as<V, 4, h>(at)}; }
  template <int j>
  inline __attribute__((always_inline)) V code() const {
    if constexpr (j == 0) return keep(x, 1);
    return keep(shift_right16<j>(x), 1);
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes first = or_(w[0], shift_left16<1>(w[1]));
    store_folded<4>(to, or_(first, shift_left16<2>(or_(w[2], shift_left16<1>(w[3])))));
  }
};

template <class V, int h>
struct Unit<3, V, h> {
  V x;  // c0 and c1, low and high, each with a fourth bit that is none of theirs
  V y;  // c2 and c3, likewise

  KVASIR_INLINE Unit load(const std::byte* at) {
    const V a = load_as<V>(at + h * static_cast<int>(sizeof(V)));
    const V low = keep(load_unfolded_as<V, 2, h>(at + 64), 0x33);
    return {a, or_(low, keep(shift_right16<1>(a), 0x44))};
  }
  template <int j>
  inline __attribute__((always_inline)) V code() const {
    if constexpr (j == 0) return keep(x, 7);
    if constexpr (j == 1) return keep(shift_right16<4>(x), 7);
    if constexpr (j == 2) return keep(y, 7);
    return keep(shift_right16<4>(y), 7);
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes both = or_(w[2], shift_left16<4>(w[3]));
    const Bytes top = shift_left16<1>(keep(both, 0x44));
    store_bytes(to, or_(or_(w[0], shift_left16<4>(w[1])), top));
    store_folded<2>(to + 64, keep(both, 0x33));
  }
};

template <class V, int h>
struct Unit<5, V, h> {
  V a[2];
  V low;

  KVASIR_INLINE Unit load(const std::byte* at) {
    constexpr int kOffset = h * static_cast<int>(sizeof(V));
    return {{load_as<V>(at + kOffset), load_as<V>(at + 64 + kOffset)}, load_unfolded_as<V, 4, h>(at + 128)};
  }
  template <int j>
  inline __attribute__((always_inline)) V code() const {
    if constexpr (j < 2) return keep(a[j], 31);
    const V high = keep(shift_right16<3>(a[j % 2]), 0x1c);
    if constexpr (j == 2) return or_(high, keep(low, 3));
    return or_(high, keep(shift_right16<2>(low), 3));
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes three = set1_bytes(3);
    for (int i = 0; i < 2; ++i) store_bytes(to + 64 * i, or_(w[i], shift_left16<3>(keep(w[2 + i], 0x1c))));
    store_folded<4>(to + 128, or_(and_(w[2], three), shift_left16<2>(and_(w[3], three))));
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
