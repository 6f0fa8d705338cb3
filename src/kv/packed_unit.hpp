// Units of a packed matrix (kv/packed_layout.hpp) in registers. For sources compiled per instruction set.
#pragma once

#include "kv/packed_layout.hpp"
#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// Unit<B>: code<j>() is word j of the unit at p; 8 bits: signed. store() writes a unit from its words of codes.
template <int B>
struct Unit;

template <>
struct Unit<8> {
  const std::byte* p;

  KVASIR_INLINE Unit load(const std::byte* at) { return {at}; }
  template <int j>
  inline __attribute__((always_inline)) Bytes code() const {
    return load_bytes(p + 64 * j);
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    for (int j = 0; j < 4; ++j) store_bytes(to + 64 * j, xor_(w[j], set1_bytes(128)));
  }
};

template <>
struct Unit<4> {
  const std::byte* p;

  KVASIR_INLINE Unit load(const std::byte* at) { return {at}; }
  template <int j>
  inline __attribute__((always_inline)) Bytes code() const {
    const Bytes x = load_bytes(p + 64 * (j / 2));
    if constexpr (j % 2 == 0) return and_(x, set1_bytes(15));
    return and_(shift_right16<4>(x), set1_bytes(15));
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    store_bytes(to, or_(w[0], shift_left16<4>(w[1])));
    store_bytes(to + 64, or_(w[2], shift_left16<4>(w[3])));
  }
};

template <>
struct Unit<2> {
  Bytes x;

  KVASIR_INLINE Unit load(const std::byte* at) { return {load_bytes(at)}; }
  template <int j>
  inline __attribute__((always_inline)) Bytes code() const {
    if constexpr (j == 0) return and_(x, set1_bytes(3));
    return and_(shift_right16<2 * j>(x), set1_bytes(3));
  }
  // c0 | c1 << 2 (half 0) or c2 | c3 << 2 (half 1)
  template <int half>
  inline __attribute__((always_inline)) Bytes code_pair() const {
    if constexpr (half == 0) return and_(x, set1_bytes(15));
    return and_(shift_right16<4>(x), set1_bytes(15));
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes first = or_(w[0], shift_left16<2>(w[1]));
    store_bytes(to, or_(first, shift_left16<4>(or_(w[2], shift_left16<2>(w[3])))));
  }
};

template <>
struct Unit<1> {
  Bytes x;

  KVASIR_INLINE Unit load(const std::byte* at) { return {load_unfolded<4>(at)}; }
  template <int j>
  inline __attribute__((always_inline)) Bytes code() const {
    if constexpr (j == 0) return and_(x, set1_bytes(1));
    return and_(shift_right16<j>(x), set1_bytes(1));
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes first = or_(w[0], shift_left16<1>(w[1]));
    store_folded<4>(to, or_(first, shift_left16<2>(or_(w[2], shift_left16<1>(w[3])))));
  }
};

template <>
struct Unit<3> {
  Bytes x;  // c0 and c1, low and high, each with a fourth bit that is none of theirs
  Bytes y;  // c2 and c3, likewise

  KVASIR_INLINE Unit load(const std::byte* at) {
    const Bytes a = load_bytes(at);
    const Bytes low = and_(load_unfolded<2>(at + 64), set1_bytes(0x33));
    return {a, or_(low, and_(shift_right16<1>(a), set1_bytes(0x44)))};
  }
  template <int j>
  inline __attribute__((always_inline)) Bytes code() const {
    if constexpr (j == 0) return and_(x, set1_bytes(7));
    if constexpr (j == 1) return and_(shift_right16<4>(x), set1_bytes(7));
    if constexpr (j == 2) return and_(y, set1_bytes(7));
    return and_(shift_right16<4>(y), set1_bytes(7));
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes both = or_(w[2], shift_left16<4>(w[3]));
    const Bytes top = shift_left16<1>(and_(both, set1_bytes(0x44)));
    store_bytes(to, or_(or_(w[0], shift_left16<4>(w[1])), top));
    store_folded<2>(to + 64, and_(both, set1_bytes(0x33)));
  }
};

template <>
struct Unit<5> {
  Bytes a[2];
  Bytes low;

  KVASIR_INLINE Unit load(const std::byte* at) {
    return {{load_bytes(at), load_bytes(at + 64)}, load_unfolded<4>(at + 128)};
  }
  template <int j>
  inline __attribute__((always_inline)) Bytes code() const {
    if constexpr (j < 2) return and_(a[j], set1_bytes(31));
    const Bytes high = and_(shift_right16<3>(a[j % 2]), set1_bytes(0x1c));
    if constexpr (j == 2) return or_(high, and_(low, set1_bytes(3)));
    return or_(high, and_(shift_right16<2>(low), set1_bytes(3)));
  }
  KVASIR_INLINE void store(std::byte* to, const Bytes (&w)[4]) {
    const Bytes three = set1_bytes(3);
    for (int i = 0; i < 2; ++i) store_bytes(to + 64 * i, or_(w[i], shift_left16<3>(and_(w[2 + i], set1_bytes(0x1c)))));
    store_folded<4>(to + 128, or_(and_(w[2], three), shift_left16<2>(and_(w[3], three))));
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
