#include "simd/vec.hpp"

#include "simd/vec_fixture.hpp"

namespace kvasir::simd::KVASIR_TARGET {
namespace {

KVASIR_INLINE F32 floats(const std::byte* in, int i) { return load(reinterpret_cast<const float*>(in) + 16 * i); }
KVASIR_INLINE I32 ints(const std::byte* in, int i) {
  return load_i32(reinterpret_cast<const std::int32_t*>(in) + 16 * i);
}
KVASIR_INLINE Bytes bytes(const std::byte* in, int i) { return load_bytes(in + 64 * i); }
KVASIR_INLINE Bytes below(Bytes x, int limit) { return and_(x, set1_bytes(static_cast<std::uint8_t>(limit - 1))); }
// Any byte but -128: of 0x80 and 0x81 to 0x81.
KVASIR_INLINE Bytes above_minimum(Bytes x) { return or_(x, set1_bytes(1)); }
KVASIR_INLINE void put(std::byte* out, F32 x) { store(reinterpret_cast<float*>(out), x); }
KVASIR_INLINE void put(std::byte* out, I32 x) { store_i32(reinterpret_cast<std::int32_t*>(out), x); }
KVASIR_INLINE void put(std::byte* out, Bytes x) { store_bytes(out, x); }
KVASIR_INLINE void put(std::byte* out, float x) { __builtin_memcpy(out, &x, 4); }
KVASIR_INLINE void put(std::byte* out, std::int32_t x) { __builtin_memcpy(out, &x, 4); }

// n in [-128, 128], a in +-[1, 2).
KVASIR_INLINE F32 scaled(F32 x, I32 n) {
  const I32 mantissa = and_(f32_to_bits(x), set1_i32(0x7fffff));
  return scale2(bits_to_f32(add(mantissa, set1_i32(0x3f800000))), sub(to_f32(and_(n, set1_i32(255))), set1(128)));
}

// NaN becomes 0: max and min give the second when either is NaN.
KVASIR_INLINE F32 numbers(F32 x) { return add(min(x, zero()), max(x, zero())); }

// Reductions of n vectors at once; integers whose sums stay in range.
template <int n>
KVASIR_INLINE F32 added(const std::byte* in) {
  F32 x[n];
  for (int i = 0; i < n; ++i) x[i] = floats(in, i);
  return reduce_adds(x);
}
template <int n>
KVASIR_INLINE F32 largest(const std::byte* in) {
  F32 x[n];
  for (int i = 0; i < n; ++i) x[i] = floats(in, i);
  return reduce_maxima(x);
}
template <int n>
KVASIR_INLINE I32 added_ints(const std::byte* in) {
  I32 x[n];
  for (int i = 0; i < n; ++i) x[i] = shift_right32<4>(ints(in, i));
  return reduce_adds(x);
}

// What few sets have, from operations that all have.
[[maybe_unused]] KVASIR_INLINE I32 lane_sums(Bytes x, Bytes y, Bytes z) {
#if KVASIR_LANE_SUMS
  LaneSums sum = zero_lane_sums();
  add_products(sum, x, y);
  add_products(sum, z, y);
  return widened(sum);
#else
  return dot_ss(dot_ss(zero_i32(), x, y), z, y);
#endif
}
// 16 rows of 4 elements, the next 4 of them, and two columns of 8 elements: the products with one of the columns.
[[maybe_unused]] KVASIR_INLINE I32 of_two_columns(const std::byte* in, int column) {
  Bytes x = above_minimum(bytes(in, 0)), y = above_minimum(bytes(in, 1));
  const auto* const q = reinterpret_cast<const std::int8_t*>(in + 128);
#if KVASIR_HAS_MMLA
  rows_of_eight(x, y);
  TwoColumns sum = {zero_i32(), zero_i32()};
  dot_columns(sum, x, y, q, q + 8);
  return column == 0 ? first_column(sum) : second_column(sum);
#else
  return dot_ss(dot_ss(zero_i32(), broadcast4(q + 8 * column), x), broadcast4(q + 8 * column + 4), y);
#endif
}

// Of KIND, COUNT vectors are read, the first four as x, y, z, w.
#define KVASIR_OP(NAME, COUNT, IN, SOURCE, OUT, OUT_BYTES, EXPRESSION)                                \
  VecOp {                                                                                             \
    NAME, 64 * COUNT, OUT_BYTES, VecBits::IN, VecBits::OUT, [](const std::byte* in, std::byte* out) { \
      [[maybe_unused]] const auto x = SOURCE(in, 0);                                                  \
      [[maybe_unused]] const auto y = SOURCE(in, COUNT > 1 ? 1 : 0);                                  \
      [[maybe_unused]] const auto z = SOURCE(in, COUNT > 2 ? 2 : 0);                                  \
      [[maybe_unused]] const auto w = SOURCE(in, COUNT > 3 ? 3 : 0);                                  \
      put(out, EXPRESSION);                                                                           \
    }                                                                                                 \
  }
#define KVASIR_FLOATS(NAME, COUNT, EXPRESSION) KVASIR_OP(NAME, COUNT, kFloats, floats, kFloats, 64, EXPRESSION)
#define KVASIR_FLOAT(NAME, EXPRESSION) KVASIR_OP(NAME, 1, kFloats, floats, kFloats, 4, EXPRESSION)
#define KVASIR_INTS(NAME, COUNT, EXPRESSION) KVASIR_OP(NAME, COUNT, kAny, ints, kAny, 64, EXPRESSION)
#define KVASIR_BYTES(NAME, COUNT, EXPRESSION) KVASIR_OP(NAME, COUNT, kAny, bytes, kAny, 64, EXPRESSION)
// Loads and stores of other widths.
#define KVASIR_MOVE(NAME, IN_BYTES, IN, OUT_BYTES, OUT, STATEMENT)                                               \
  VecOp {                                                                                                        \
    NAME, IN_BYTES, OUT_BYTES, VecBits::IN, VecBits::OUT, [](const std::byte* in, std::byte* out) { STATEMENT; } \
  }
#define KVASIR_AS(T, p) reinterpret_cast<T*>(p)

const VecOp kOps[] = {
    KVASIR_FLOATS("add", 2, add(x, y)),
    KVASIR_FLOATS("sub", 2, sub(x, y)),
    KVASIR_FLOATS("mul", 2, mul(x, y)),
    KVASIR_FLOATS("div", 2, div(x, y)),
    KVASIR_FLOATS("fma", 3, fma(x, y, z)),
    KVASIR_FLOATS("max", 2, max(x, y)),
    KVASIR_FLOATS("min", 2, min(x, y)),
    KVASIR_FLOATS("abs", 1, abs(x)),
    KVASIR_FLOATS("limit_size", 2, limit_size(numbers(x), abs(numbers(y)))),
    KVASIR_FLOATS("sqrt", 1, sqrt(x)),
    KVASIR_FLOATS("round", 1, round(x)),
    KVASIR_FLOATS("scale2", 2, scaled(x, f32_to_bits(y))),
    KVASIR_FLOATS("zero_if_less", 3, zero_if_less(x, y, z)),
    KVASIR_FLOATS("select_first 0", 2, select_first(0, x, y)),
    KVASIR_FLOATS("select_first 1", 2, select_first(1, x, y)),
    KVASIR_FLOATS("select_first 8", 2, select_first(8, x, y)),
    KVASIR_FLOATS("select_first 11", 2, select_first(11, x, y)),
    KVASIR_FLOATS("select_first 16", 2, select_first(16, x, y)),
    KVASIR_FLOATS("butterfly 1", 1, butterfly<1>(x)),
    KVASIR_FLOATS("butterfly 2", 1, butterfly<2>(x)),
    KVASIR_FLOATS("butterfly 4", 1, butterfly<4>(x)),
    KVASIR_FLOATS("butterfly 8", 1, butterfly<8>(x)),
    KVASIR_FLOATS("exp", 1, exp(x)),
    KVASIR_FLOATS("silu", 1, silu(x)),
    KVASIR_FLOAT("reduce_add", reduce_add(x)),
    KVASIR_FLOAT("reduce_max", reduce_max(x)),
    KVASIR_FLOATS("reduce_add4", 4, ([&] {
                    const F32 all[4] = {x, y, z, w};
                    return reduce_add4(all);
                  })()),
    KVASIR_FLOATS("reduce_max4", 4, ([&] {
                    const F32 all[4] = {x, y, z, w};
                    return reduce_max4(all);
                  })()),
    KVASIR_FLOATS("reduce_adds 1", 1, added<1>(in)),
    KVASIR_FLOATS("reduce_adds 3", 3, added<3>(in)),
    KVASIR_FLOATS("reduce_adds 8", 8, added<8>(in)),
    KVASIR_FLOATS("reduce_adds 13", 13, added<13>(in)),
    KVASIR_FLOATS("reduce_adds 16", 16, added<16>(in)),
    KVASIR_FLOATS("reduce_maxima 1", 1, largest<1>(in)),
    KVASIR_FLOATS("reduce_maxima 3", 3, largest<3>(in)),
    KVASIR_FLOATS("reduce_maxima 8", 8, largest<8>(in)),
    KVASIR_FLOATS("reduce_maxima 13", 13, largest<13>(in)),
    KVASIR_FLOATS("reduce_maxima 16", 16, largest<16>(in)),
    KVASIR_FLOATS("lookup 8", 2, lookup<8>(x, and_(f32_to_bits(y), set1_i32(~8)))),
    KVASIR_FLOATS("lookup 16", 2, lookup<16>(x, f32_to_bits(y))),
    KVASIR_OP("to_i32", 1, kFloats, floats, kAny, 64, to_i32(x)),
    KVASIR_OP("bits", 1, kFloats, floats, kAny, 64, f32_to_bits(bits_to_f32(f32_to_bits(x)))),
    KVASIR_MOVE("load_f16", 32, kAny, 64, kFloats, put(out, load_f16(KVASIR_AS(const std::uint16_t, in)))),
    KVASIR_MOVE("load_bf16", 32, kAny, 64, kFloats, put(out, load_bf16(KVASIR_AS(const std::uint16_t, in)))),
    KVASIR_MOVE("store_f16", 64, kFloats, 32, kAny, store_f16(KVASIR_AS(std::uint16_t, out), floats(in, 0))),
    KVASIR_MOVE("store_bf16", 64, kFloats, 32, kAny, store_bf16(KVASIR_AS(std::uint16_t, out), floats(in, 0))),

    // Sums that stay in range.
    KVASIR_INTS("add i32", 2, add(shift_right32<1>(x), shift_right32<1>(y))),
    KVASIR_INTS("sub i32", 2, sub(shift_right32<1>(x), shift_right32<1>(y))),
    KVASIR_INTS("mul i32", 2, mul(shift_right32<16>(x), shift_right32<16>(y))),
    KVASIR_INTS("and i32", 2, and_(x, y)),
    KVASIR_INTS("shift_right 0", 1, shift_right(x, 0)),
    KVASIR_INTS("shift_right 5", 1, shift_right(x, 5)),
    KVASIR_INTS("shift_right 31", 1, shift_right(x, 31)),
    KVASIR_INTS("shift_right32", 1, shift_right32<7>(x)),
    KVASIR_INTS("shift_left32", 1, shift_left32<23>(x)),
    KVASIR_INTS("to_signed_bytes", 4, to_signed_bytes(x, y, z, w)),
    KVASIR_INTS(
        "to_signed_bytes small", 4,
        to_signed_bytes(shift_right32<23>(x), shift_right32<23>(y), shift_right32<24>(z), shift_right32<25>(w))),
    KVASIR_OP("to_f32", 1, kAny, ints, kFloats, 64, to_f32(x)),
    KVASIR_OP("reduce_add i32", 1, kAny, ints, kAny, 4, reduce_add(shift_right32<4>(x))),
    KVASIR_INTS(
        "reduce_add4 i32", 4, ([&] {
          const I32 all[4] = {shift_right32<4>(x), shift_right32<4>(y), shift_right32<4>(z), shift_right32<4>(w)};
          return reduce_add4(all);
        })()),
    KVASIR_INTS("reduce_adds 3 i32", 3, added_ints<3>(in)),
    KVASIR_INTS("reduce_adds 8 i32", 8, added_ints<8>(in)),
    KVASIR_INTS("reduce_adds 13 i32", 13, added_ints<13>(in)),
    KVASIR_INTS("reduce_adds 16 i32", 16, added_ints<16>(in)),
    KVASIR_MOVE("load_i8", 16, kAny, 64, kAny, put(out, load_i8(KVASIR_AS(const std::int8_t, in)))),
    KVASIR_MOVE("load_u8", 16, kAny, 64, kAny, put(out, load_u8(KVASIR_AS(const std::uint8_t, in)))),
    KVASIR_MOVE("store_low_bytes", 64, kAny, 16, kAny, store_low_bytes(out, ints(in, 0))),

    KVASIR_BYTES("and", 2, and_(x, y)),
    KVASIR_BYTES("or", 2, or_(x, y)),
    KVASIR_BYTES("xor", 2, xor_(x, y)),
    KVASIR_BYTES("sub8", 2, sub8(x, y)),
    KVASIR_BYTES("shift_right16", 1, shift_right16<3>(x)),
    KVASIR_BYTES("shift_left16", 1, shift_left16<5>(x)),
    KVASIR_BYTES("lookup16", 2, lookup16(repeat16(in), below(y, 16))),
    KVASIR_BYTES("lookup32", 2, lookup32(repeat16(in), repeat16(in + 16), below(y, 32))),
    KVASIR_BYTES("byte 0", 1, byte<0>(x)),
    KVASIR_BYTES("byte 1", 1, byte<1>(x)),
    KVASIR_BYTES("byte 2", 1, byte<2>(x)),
    KVASIR_BYTES("byte 3", 1, byte<3>(x)),
    KVASIR_BYTES("signed_byte 0", 1, signed_byte<0>(x)),
    KVASIR_BYTES("signed_byte 1", 1, signed_byte<1>(x)),
    KVASIR_BYTES("signed_byte 2", 1, signed_byte<2>(x)),
    KVASIR_BYTES("signed_byte 3", 1, signed_byte<3>(x)),
    KVASIR_MOVE("set1_bytes", 1, kAny, 64, kAny, put(out, set1_bytes(std::to_integer<std::uint8_t>(*in)))),
    KVASIR_MOVE("broadcast4", 4, kAny, 64, kAny, put(out, broadcast4(in))),
    KVASIR_MOVE("repeat16", 16, kAny, 64, kAny, put(out, repeat16(in))),
    KVASIR_MOVE("load_unfolded 1", 32, kAny, 64, kAny, put(out, load_unfolded<1>(in))),
    KVASIR_MOVE("load_unfolded 2", 32, kAny, 64, kAny, put(out, load_unfolded<2>(in))),
    KVASIR_MOVE("load_unfolded 4", 32, kAny, 64, kAny, put(out, load_unfolded<4>(in))),
    KVASIR_MOVE("store_folded 2", 64, kAny, 32, kAny, store_folded<2>(out, below(bytes(in, 0), 64))),
    KVASIR_MOVE("store_folded 4", 64, kAny, 32, kAny, store_folded<4>(out, below(bytes(in, 0), 16))),
    KVASIR_MOVE("interleave4", 64, kAny, 64, kAny, put(out, interleave4(KVASIR_AS(const std::uint8_t, in), 16))),
    KVASIR_MOVE("interleave4 apart", 79, kAny, 64, kAny, put(out, interleave4(KVASIR_AS(const std::uint8_t, in), 21))),

    KVASIR_BYTES("dot_us", 3, dot_us(shift_right32<1>(ints(in, 0)), below(y, 128), z)),
    KVASIR_BYTES("dot_ss", 3, dot_ss(shift_right32<1>(ints(in, 0)), y, above_minimum(z))),
    KVASIR_BYTES("dot_pairs", 3,
                 add_pairs(shift_right32<1>(ints(in, 0)), dot_pairs(zero_pairs(), below(y, 128), above_minimum(z)))),
    KVASIR_BYTES(
        "dot_pairs twice", 4,
        add_pairs(shift_right32<1>(ints(in, 0)), dot_pairs(dot_pairs(zero_pairs(), below(y, 64), z), below(w, 64), z))),
#if KVASIR_LANE_SUMS || defined(KVASIR_TARGET_scalar)
    // Two products of at most 127 * 127 fit.
    KVASIR_BYTES("lane sums", 3, lane_sums(above_minimum(x), above_minimum(y), above_minimum(z))),
#endif
#if KVASIR_HAS_MMLA || defined(KVASIR_TARGET_scalar)
    KVASIR_MOVE("dot_columns first", 144, kAny, 64, kAny, put(out, of_two_columns(in, 0))),
    KVASIR_MOVE("dot_columns second", 144, kAny, 64, kAny, put(out, of_two_columns(in, 1))),
#endif
    KVASIR_BYTES("even_words", 1, even_words(x)),
    KVASIR_BYTES("odd_words", 1, odd_words(x)),
    KVASIR_BYTES("dot_words", 3, dot_words(shift_right32<1>(ints(in, 0)), even_words(y), odd_words(z))),
#if KVASIR_HAS_VNNI || defined(KVASIR_TARGET_scalar)
    KVASIR_BYTES("dot_us with VNNI", 3, dot_us(shift_right32<1>(ints(in, 0)), y, z)),
    KVASIR_BYTES("dot_pairs with VNNI", 3, add_pairs(shift_right32<1>(ints(in, 0)), dot_pairs(zero_pairs(), y, z))),
#endif
#if !KVASIR_HAS_VNNI
    KVASIR_BYTES("multiply_pairs", 2, multiply_pairs(below(x, 128), above_minimum(y))),
    KVASIR_BYTES("add16", 2, add16(x, y)),
    KVASIR_BYTES("sub16", 2, sub16(x, y)),
    KVASIR_BYTES("add_pairs", 1, add_pairs(x, -3)),
    KVASIR_MOVE("pair_sums", 16, kAny, 4, kAny, put(out, pair_sums(KVASIR_AS(const std::int8_t, in)))),
#endif
};

void copy_n_to(const float* from, float* to, int n) { store_n(to, load_n(from, n), n); }
void load_n_to(const float* from, float* to, int n) { store(to, load_n(from, n)); }

}  // namespace

extern const VecTestKernels vec_test_table;
const VecTestKernels vec_test_table = {kOps, sizeof(kOps) / sizeof(kOps[0]), copy_n_to, load_n_to};

}  // namespace kvasir::simd::KVASIR_TARGET
