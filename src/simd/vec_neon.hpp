// simd/vec.hpp for Advanced SIMD of 64-bit ARM: four registers per vector. With KVASIR_TARGET_neondot and _neoni8mm
// dot products of bytes are instructions; without, products of bytes are added up in 16 bits.
#pragma once

#include <arm_neon.h>

#define KVASIR_HAS_VNNI 0
#define KVASIR_STEPWISE_DOTS 0
#define KVASIR_SIGNED_DOTS 1
#define KVASIR_VECTOR_REGISTERS 8
#if defined(KVASIR_TARGET_neon)
#define KVASIR_LANE_SUMS 1
#endif
#if defined(KVASIR_TARGET_neoni8mm)
#define KVASIR_HAS_BF16 1
#define KVASIR_HAS_MMLA 1
#else
#define KVASIR_HAS_BF16 0
#define KVASIR_HAS_MMLA 0
#endif

namespace kvasir::simd::KVASIR_TARGET {

struct F32 {
  float32x4_t a, b, c, d;
};
struct I32 {
  int32x4_t a, b, c, d;
};
struct Bytes {
  uint8x16_t a, b, c, d;
};

// Register by register.
#define KVASIR_EACH(R, f, x) \
  R { f(x.a), f(x.b), f(x.c), f(x.d) }
#define KVASIR_EACH2(R, f, x, y) \
  R { f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d) }
#define KVASIR_EACH3(R, f, x, y, z) \
  R { f(x.a, y.a, z.a), f(x.b, y.b, z.b), f(x.c, y.c, z.c), f(x.d, y.d, z.d) }

KVASIR_INLINE F32 set1(float x) {
  const float32x4_t v = vdupq_n_f32(x);
  return {v, v, v, v};
}
KVASIR_INLINE F32 zero() { return set1(0.0f); }
KVASIR_INLINE F32 load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
KVASIR_INLINE void store(float* p, F32 x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
  vst1q_f32(p + 8, x.c);
  vst1q_f32(p + 12, x.d);
}
KVASIR_INLINE float32x4_t load_quarter(const float* p, int n) {
  if (n >= 4) return vld1q_f32(p);
  float32x4_t v = vdupq_n_f32(0.0f);
  if (n > 0) v = vld1q_lane_f32(p, v, 0);
  if (n > 1) v = vld1q_lane_f32(p + 1, v, 1);
  if (n > 2) v = vld1q_lane_f32(p + 2, v, 2);
  return v;
}
KVASIR_INLINE void store_quarter(float* p, float32x4_t v, int n) {
  if (n >= 4) return vst1q_f32(p, v);
  if (n > 0) vst1q_lane_f32(p, v, 0);
  if (n > 1) vst1q_lane_f32(p + 1, v, 1);
  if (n > 2) vst1q_lane_f32(p + 2, v, 2);
}
// The first n (0..16) lanes; the others are 0 / not written.
KVASIR_INLINE F32 load_n(const float* p, int n) {
  return {load_quarter(p, n), load_quarter(p + 4, n - 4), load_quarter(p + 8, n - 8), load_quarter(p + 12, n - 12)};
}
KVASIR_INLINE void store_n(float* p, F32 x, int n) {
  store_quarter(p, x.a, n);
  store_quarter(p + 4, x.b, n - 4);
  store_quarter(p + 8, x.c, n - 8);
  store_quarter(p + 12, x.d, n - 12);
}
KVASIR_INLINE F32 add(F32 x, F32 y) { return KVASIR_EACH2(F32, vaddq_f32, x, y); }
KVASIR_INLINE F32 sub(F32 x, F32 y) { return KVASIR_EACH2(F32, vsubq_f32, x, y); }
KVASIR_INLINE F32 mul(F32 x, F32 y) { return KVASIR_EACH2(F32, vmulq_f32, x, y); }
KVASIR_INLINE F32 div(F32 x, F32 y) { return KVASIR_EACH2(F32, vdivq_f32, x, y); }
KVASIR_INLINE F32 fma(F32 x, F32 y, F32 z) { return KVASIR_EACH3(F32, vfmaq_f32, z, x, y); }
// y when either is NaN, and of zeros of both signs: fmax and fmin of the instruction set would choose otherwise.
KVASIR_INLINE float32x4_t max_quarter(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
KVASIR_INLINE float32x4_t min_quarter(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
KVASIR_INLINE F32 max(F32 x, F32 y) { return KVASIR_EACH2(F32, max_quarter, x, y); }
KVASIR_INLINE F32 min(F32 x, F32 y) { return KVASIR_EACH2(F32, min_quarter, x, y); }
KVASIR_INLINE F32 abs(F32 x) { return KVASIR_EACH(F32, vabsq_f32, x); }
KVASIR_INLINE float32x4_t with_sign_of(float32x4_t size, float32x4_t x) {
  return vbslq_f32(vdupq_n_u32(0x80000000u), x, size);
}
KVASIR_INLINE F32 limit_size(F32 x, F32 limit) {
  const F32 size = min(abs(x), limit);
  return KVASIR_EACH2(F32, with_sign_of, size, x);
}
KVASIR_INLINE F32 sqrt(F32 x) { return KVASIR_EACH(F32, vsqrtq_f32, x); }
KVASIR_INLINE F32 round(F32 x) { return KVASIR_EACH(F32, vrndnq_f32, x); }  // to nearest even
// a * 2^n, n integral, |n| <= 128: two factors, so that 2^128 and subnormal results stay in range.
KVASIR_INLINE float32x4_t scale2_quarter(float32x4_t x, float32x4_t n) {
  const int32x4_t i = vcvtnq_s32_f32(n);
  const int32x4_t half = vshrq_n_s32(i, 1);
  const int32x4_t rest = vsubq_s32(i, half);
  const int32x4_t bias = vdupq_n_s32(127);
  const float32x4_t f = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
  const float32x4_t g = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
  return vmulq_f32(vmulq_f32(x, f), g);
}
KVASIR_INLINE F32 scale2(F32 x, F32 n) { return KVASIR_EACH2(F32, scale2_quarter, x, n); }
KVASIR_INLINE float32x4_t zero_if_less_quarter(float32x4_t x, float32x4_t limit, float32x4_t y) {
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(y), vcltq_f32(x, limit)));
}
KVASIR_INLINE F32 zero_if_less(F32 x, F32 limit, F32 y) { return KVASIR_EACH3(F32, zero_if_less_quarter, x, limit, y); }
KVASIR_INLINE uint32x4_t first4(int n) {
  const int32x4_t lanes = vreinterpretq_s32_u32(vmovl_u16(vcreate_u16(0x0003000200010000)));
  return vcltq_s32(lanes, vdupq_n_s32(n));
}
KVASIR_INLINE F32 select_first(int n, F32 x, F32 y) {
  return {vbslq_f32(first4(n), x.a, y.a), vbslq_f32(first4(n - 4), x.b, y.b), vbslq_f32(first4(n - 8), x.c, y.c),
          vbslq_f32(first4(n - 12), x.d, y.d)};
}

// Lanes 0 and 1 (first) or 2 and 3 of x, then those of y.
KVASIR_INLINE float32x4_t first_pairs_of(float32x4_t x, float32x4_t y) {
  return vreinterpretq_f32_f64(vtrn1q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
KVASIR_INLINE float32x4_t last_pairs_of(float32x4_t x, float32x4_t y) {
  return vreinterpretq_f32_f64(vtrn2q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
// Lane i is the reduction of x[i], in the order of reduce_add and reduce_max: halves, quarters, pairs, lanes.
template <class Op>
KVASIR_INLINE float32x4_t reduce_four(const F32* x, Op op) {
  const auto quarters = [&](int i) __attribute__((always_inline)) {
    return op(op(x[i].a, x[i].c), op(x[i].b, x[i].d));
  };
  const auto pairs = [&](int i) __attribute__((always_inline)) {
    const float32x4_t u = quarters(i), v = quarters(i + 1);
    return op(first_pairs_of(u, v), last_pairs_of(u, v));
  };
  const float32x4_t u = pairs(0), v = pairs(2);
  return op(vuzp1q_f32(u, v), vuzp2q_f32(u, v));
}
// 4, 8 or 16 vectors; lanes from N on are 0.
template <int N, class Op>
KVASIR_INLINE F32 reduce_float_rows(const F32* x, Op op) {
  static_assert(N == 4 || N == 8 || N == 16);
  F32 r = zero();
  r.a = reduce_four(x, op);
  if constexpr (N >= 8) r.b = reduce_four(x + 4, op);
  if constexpr (N == 16) {
    r.c = reduce_four(x + 8, op);
    r.d = reduce_four(x + 12, op);
  }
  return r;
}
struct AddQuarters {
  __attribute__((always_inline)) float32x4_t operator()(float32x4_t x, float32x4_t y) const { return vaddq_f32(x, y); }
};
struct MaxQuarters {
  __attribute__((always_inline)) float32x4_t operator()(float32x4_t x, float32x4_t y) const {
    return max_quarter(x, y);
  }
};
template <int N>
KVASIR_INLINE F32 reduce_add_rows(const F32* x) {
  return reduce_float_rows<N>(x, AddQuarters{});
}
template <int N>
KVASIR_INLINE F32 reduce_max_rows(const F32* x) {
  return reduce_float_rows<N>(x, MaxQuarters{});
}
KVASIR_INLINE F32 reduce_add4(const F32* x) { return reduce_add_rows<4>(x); }
KVASIR_INLINE F32 reduce_max4(const F32* x) { return reduce_max_rows<4>(x); }
template <class Op>
KVASIR_INLINE float reduce_one(F32 x, Op op) {
  const float32x4_t q = op(op(x.a, x.c), op(x.b, x.d));
  const float32x4_t d = op(q, vextq_f32(q, q, 2));
  return vgetq_lane_f32(op(d, vdupq_laneq_f32(d, 1)), 0);
}
KVASIR_INLINE float reduce_add(F32 x) { return reduce_one(x, AddQuarters{}); }
KVASIR_INLINE float reduce_max(F32 x) { return reduce_one(x, MaxQuarters{}); }

// Lanes i and i + h (bit h of i clear) become x[i] + x[i + h] and x[i] - x[i + h]. The products by +-1 are exact, so
// fma has the bits of add and sub.
KVASIR_INLINE float32x4_t signs4(std::uint64_t low, std::uint64_t high) {
  return vreinterpretq_f32_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}
template <int h>
KVASIR_INLINE float32x4_t butterfly_quarter(float32x4_t x) {
  constexpr std::uint64_t kPlus = 0x3f8000003f800000, kMinus = 0xbf800000bf800000, kBoth = 0xbf8000003f800000;
  if constexpr (h == 1)
    return vfmaq_f32(vrev64q_f32(x), x, signs4(kBoth, kBoth));
  else
    return vfmaq_f32(vextq_f32(x, x, 2), x, signs4(kPlus, kMinus));
}
template <int h>
KVASIR_INLINE F32 butterfly(F32 x) {
  static_assert(h == 1 || h == 2 || h == 4 || h == 8);
  if constexpr (h == 8)
    return {vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d), vsubq_f32(x.a, x.c), vsubq_f32(x.b, x.d)};
  else if constexpr (h == 4)
    return {vaddq_f32(x.a, x.b), vsubq_f32(x.a, x.b), vaddq_f32(x.c, x.d), vsubq_f32(x.c, x.d)};
  else
    return KVASIR_EACH(F32, butterfly_quarter<h>, x);
}

KVASIR_INLINE float32x4_t load_f16_quarter(const std::uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
KVASIR_INLINE F32 load_f16(const std::uint16_t* p) {
  return {load_f16_quarter(p), load_f16_quarter(p + 4), load_f16_quarter(p + 8), load_f16_quarter(p + 12)};
}
KVASIR_INLINE void store_f16(std::uint16_t* p, F32 x) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x.a)));
  vst1_u16(p + 4, vreinterpret_u16_f16(vcvt_f16_f32(x.b)));
  vst1_u16(p + 8, vreinterpret_u16_f16(vcvt_f16_f32(x.c)));
  vst1_u16(p + 12, vreinterpret_u16_f16(vcvt_f16_f32(x.d)));
}
KVASIR_INLINE float32x4_t load_bf16_quarter(const std::uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
KVASIR_INLINE F32 load_bf16(const std::uint16_t* p) {
  return {load_bf16_quarter(p), load_bf16_quarter(p + 4), load_bf16_quarter(p + 8), load_bf16_quarter(p + 12)};
}
KVASIR_INLINE uint16x4_t bf16_bits(float32x4_t a) {  // to nearest even, NaN stays NaN
  const uint32x4_t x = vreinterpretq_u32_f32(a);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(x, 16), vdupq_n_u32(1));
  const uint32x4_t r = vaddq_u32(vaddq_u32(x, vdupq_n_u32(0x7fff)), odd);
  const uint32x4_t quiet = vorrq_u32(x, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), r, quiet), 16);
}
KVASIR_INLINE void store_bf16(std::uint16_t* p, F32 x) {
  vst1_u16(p, bf16_bits(x.a));
  vst1_u16(p + 4, bf16_bits(x.b));
  vst1_u16(p + 8, bf16_bits(x.c));
  vst1_u16(p + 12, bf16_bits(x.d));
}

KVASIR_INLINE I32 set1_i32(std::int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {v, v, v, v};
}
KVASIR_INLINE I32 zero_i32() { return set1_i32(0); }
KVASIR_INLINE I32 load_i32(const std::int32_t* p) {
  return {vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)};
}
KVASIR_INLINE void store_i32(std::int32_t* p, I32 x) {
  vst1q_s32(p, x.a);
  vst1q_s32(p + 4, x.b);
  vst1q_s32(p + 8, x.c);
  vst1q_s32(p + 12, x.d);
}
KVASIR_INLINE I32 add(I32 x, I32 y) { return KVASIR_EACH2(I32, vaddq_s32, x, y); }
KVASIR_INLINE I32 sub(I32 x, I32 y) { return KVASIR_EACH2(I32, vsubq_s32, x, y); }
KVASIR_INLINE I32 mul(I32 x, I32 y) { return KVASIR_EACH2(I32, vmulq_s32, x, y); }
KVASIR_INLINE I32 and_(I32 x, I32 y) { return KVASIR_EACH2(I32, vandq_s32, x, y); }
KVASIR_INLINE I32 load_i8(const std::int8_t* p) {  // 16 signed bytes
  const int8x16_t x = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(x)), high = vmovl_high_s8(x);
  return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}
KVASIR_INLINE I32 load_u8(const std::uint8_t* p) {
  const uint8x16_t x = vld1q_u8(p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_high_u8(x);
  return {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_s32_u32(vmovl_high_u16(low)),
          vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_s32_u32(vmovl_high_u16(high))};
}
// Shifts zeros in.
KVASIR_INLINE I32 shift_right(I32 x, int n) {
  const int32x4_t left = vdupq_n_s32(-n);
  const auto quarter = [&](int32x4_t v) __attribute__((always_inline)) {
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), left));
  };
  return KVASIR_EACH(I32, quarter, x);
}
// Lane i[lane] % 16 of the table. REQUIRES: that is below `entries`.
template <int entries>
KVASIR_INLINE float32x4_t lookup_quarter(F32 table, int32x4_t i) {
  // Bytes 4 i .. 4 i + 3.
  const uint32x4_t lane = vandq_u32(vreinterpretq_u32_s32(i), vdupq_n_u32(15));
  const uint8x16_t at = vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x03020100), lane, 0x04040404));
  const auto bytes = [](float32x4_t v) __attribute__((always_inline)) { return vreinterpretq_u8_f32(v); };
  if constexpr (entries <= 8)
    return vreinterpretq_f32_u8(vqtbl2q_u8(uint8x16x2_t{{bytes(table.a), bytes(table.b)}}, at));
  else
    return vreinterpretq_f32_u8(
        vqtbl4q_u8(uint8x16x4_t{{bytes(table.a), bytes(table.b), bytes(table.c), bytes(table.d)}}, at));
}
template <int entries>
KVASIR_INLINE F32 lookup(F32 table, I32 i) {
  return {lookup_quarter<entries>(table, i.a), lookup_quarter<entries>(table, i.b), lookup_quarter<entries>(table, i.c),
          lookup_quarter<entries>(table, i.d)};
}
KVASIR_INLINE F32 to_f32(I32 x) { return KVASIR_EACH(F32, vcvtq_f32_s32, x); }
KVASIR_INLINE F32 bits_to_f32(I32 x) { return KVASIR_EACH(F32, vreinterpretq_f32_s32, x); }
KVASIR_INLINE I32 f32_to_bits(F32 x) { return KVASIR_EACH(I32, vreinterpretq_s32_f32, x); }
template <int n>  // arithmetic
KVASIR_INLINE I32 shift_right32(I32 x) {
  return {vshrq_n_s32(x.a, n), vshrq_n_s32(x.b, n), vshrq_n_s32(x.c, n), vshrq_n_s32(x.d, n)};
}
template <int n>
KVASIR_INLINE I32 shift_left32(I32 x) {
  return {vshlq_n_s32(x.a, n), vshlq_n_s32(x.b, n), vshlq_n_s32(x.c, n), vshlq_n_s32(x.d, n)};
}
// To nearest even; what is too large and NaN give INT32_MIN, as elsewhere.
KVASIR_INLINE int32x4_t to_i32_quarter(float32x4_t x) {
  return vbslq_s32(vcltq_f32(x, vdupq_n_f32(2147483648.0f)), vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN));
}
KVASIR_INLINE I32 to_i32(F32 x) { return KVASIR_EACH(I32, to_i32_quarter, x); }
// The low byte of every lane (16 bytes).
KVASIR_INLINE void store_low_bytes(void* p, I32 x) {
  const int16x8_t low = vuzp1q_s16(vreinterpretq_s16_s32(x.a), vreinterpretq_s16_s32(x.b));
  const int16x8_t high = vuzp1q_s16(vreinterpretq_s16_s32(x.c), vreinterpretq_s16_s32(x.d));
  vst1q_s8(static_cast<std::int8_t*>(p), vuzp1q_s8(vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high)));
}
// 64 signed bytes from 4 x 16 integers, saturating.
KVASIR_INLINE uint8x16_t signed_bytes(I32 x) {
  const int16x8_t low = vqmovn_high_s32(vqmovn_s32(x.a), x.b), high = vqmovn_high_s32(vqmovn_s32(x.c), x.d);
  return vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(low), high));
}
KVASIR_INLINE Bytes to_signed_bytes(I32 x, I32 y, I32 z, I32 w) {
  return {signed_bytes(x), signed_bytes(y), signed_bytes(z), signed_bytes(w)};
}
KVASIR_INLINE std::int32_t reduce_add(I32 x) { return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d))); }
KVASIR_INLINE int32x4_t reduce_four(const I32* x) {
  const auto quarters = [&](int i) __attribute__((always_inline)) {
    return vaddq_s32(vaddq_s32(x[i].a, x[i].b), vaddq_s32(x[i].c, x[i].d));
  };
  return vpaddq_s32(vpaddq_s32(quarters(0), quarters(1)), vpaddq_s32(quarters(2), quarters(3)));
}
template <int N>
KVASIR_INLINE I32 reduce_add_rows(const I32* x) {
  static_assert(N == 4 || N == 8 || N == 16);
  I32 r = zero_i32();
  r.a = reduce_four(x);
  if constexpr (N >= 8) r.b = reduce_four(x + 4);
  if constexpr (N == 16) {
    r.c = reduce_four(x + 8);
    r.d = reduce_four(x + 12);
  }
  return r;
}
KVASIR_INLINE I32 reduce_add4(const I32* x) { return reduce_add_rows<4>(x); }

KVASIR_INLINE Bytes set1_bytes(std::uint8_t x) {
  const uint8x16_t v = vdupq_n_u8(x);
  return {v, v, v, v};
}
KVASIR_INLINE Bytes zero_bytes() { return set1_bytes(0); }
KVASIR_INLINE Bytes load_bytes(const void* p) {
  const auto* b = static_cast<const std::uint8_t*>(p);
  return {vld1q_u8(b), vld1q_u8(b + 16), vld1q_u8(b + 32), vld1q_u8(b + 48)};
}
KVASIR_INLINE void store_bytes(void* p, Bytes x) {
  auto* b = static_cast<std::uint8_t*>(p);
  vst1q_u8(b, x.a);
  vst1q_u8(b + 16, x.b);
  vst1q_u8(b + 32, x.c);
  vst1q_u8(b + 48, x.d);
}
// The 4 bytes at p in every 32-bit lane.
KVASIR_INLINE Bytes broadcast4(const void* p) {
  std::uint32_t x;
  __builtin_memcpy(&x, p, 4);
  const uint8x16_t v = vreinterpretq_u8_u32(vdupq_n_u32(x));
  return {v, v, v, v};
}
KVASIR_INLINE Bytes and_(Bytes x, Bytes y) { return KVASIR_EACH2(Bytes, vandq_u8, x, y); }
KVASIR_INLINE Bytes or_(Bytes x, Bytes y) { return KVASIR_EACH2(Bytes, vorrq_u8, x, y); }
KVASIR_INLINE Bytes xor_(Bytes x, Bytes y) { return KVASIR_EACH2(Bytes, veorq_u8, x, y); }
KVASIR_INLINE Bytes sub8(Bytes x, Bytes y) { return KVASIR_EACH2(Bytes, vsubq_u8, x, y); }
template <int n>  // within 16-bit lanes: mask the result
KVASIR_INLINE uint8x16_t shift_right16_quarter(uint8x16_t x) {
  if constexpr (n == 0) return x;
  return vreinterpretq_u8_u16(vshrq_n_u16(vreinterpretq_u16_u8(x), n == 0 ? 1 : n));
}
template <int n>
KVASIR_INLINE uint8x16_t shift_left16_quarter(uint8x16_t x) {
  return vreinterpretq_u8_u16(vshlq_n_u16(vreinterpretq_u16_u8(x), n));
}
template <int n>
KVASIR_INLINE Bytes shift_right16(Bytes x) {
  return KVASIR_EACH(Bytes, shift_right16_quarter<n>, x);
}
template <int n>
KVASIR_INLINE Bytes shift_left16(Bytes x) {
  return KVASIR_EACH(Bytes, shift_left16_quarter<n>, x);
}

// Of 16-bit lanes: x[2i] y[2i] + x[2i+1] y[2i+1], signed bytes. REQUIRES: y > -128, so that two products fit.
KVASIR_INLINE int16x8_t pair_products(uint8x16_t x, uint8x16_t y) {
  const int8x16_t p = vreinterpretq_s8_u8(x), q = vreinterpretq_s8_u8(y);
  return vpaddq_s16(vmull_s8(vget_low_s8(p), vget_low_s8(q)), vmull_high_s8(p, q));
}
KVASIR_INLINE int32x4_t dot_quarter(int32x4_t acc, uint8x16_t x, uint8x16_t y) {
#if defined(KVASIR_TARGET_neon)
  return vpadalq_s16(acc, pair_products(x, y));
#else
  return vdotq_s32(acc, vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(y));
#endif
}
// acc[i] += sum of 4 products, both signed. REQUIRES: y > -128 (x may be -128).
KVASIR_INLINE I32 dot_ss(I32 acc, Bytes x, Bytes y) { return KVASIR_EACH3(I32, dot_quarter, acc, x, y); }
// acc[i] += sum of 4 products u * s, u unsigned, s signed. REQUIRES: u <= 127, s > -128.
KVASIR_INLINE I32 dot_us(I32 acc, Bytes u, Bytes s) { return KVASIR_EACH3(I32, dot_quarter, acc, u, s); }

#if defined(KVASIR_LANE_SUMS)
// Sums of products of signed bytes, every byte's in 16 bits of its own: half the instructions of dot_ss.
struct LaneSums {
  int16x8_t low_a, high_a, low_b, high_b, low_c, high_c, low_d, high_d;
};
KVASIR_INLINE LaneSums zero_lane_sums() {
  const int16x8_t v = vdupq_n_s16(0);
  return {v, v, v, v, v, v, v, v};
}
KVASIR_INLINE void add_products(LaneSums& sum, Bytes x, Bytes y) {
  const auto quarter =
      [](int16x8_t & low, int16x8_t & high, uint8x16_t u, uint8x16_t v) __attribute__((always_inline)) {
    const int8x16_t p = vreinterpretq_s8_u8(u), q = vreinterpretq_s8_u8(v);
    low = vmlal_s8(low, vget_low_s8(p), vget_low_s8(q));
    high = vmlal_high_s8(high, p, q);
  };
  quarter(sum.low_a, sum.high_a, x.a, y.a);
  quarter(sum.low_b, sum.high_b, x.b, y.b);
  quarter(sum.low_c, sum.high_c, x.c, y.c);
  quarter(sum.low_d, sum.high_d, x.d, y.d);
}
// Sums of four bytes.
KVASIR_INLINE I32 widened(const LaneSums& sum) {
  const auto quarter = [](int16x8_t low, int16x8_t high) __attribute__((always_inline)) {
    return vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
  };
  return {quarter(sum.low_a, sum.high_a), quarter(sum.low_b, sum.high_b), quarter(sum.low_c, sum.high_c),
          quarter(sum.low_d, sum.high_d)};
}
#endif

// Elsewhere sums in 16 bits.
inline constexpr std::int32_t kPairSum = INT32_MAX;
struct Pairs {
  I32 sum;
};
KVASIR_INLINE Pairs zero_pairs() { return {zero_i32()}; }
KVASIR_INLINE Pairs dot_pairs(Pairs acc, Bytes u, Bytes s) { return {dot_us(acc.sum, u, s)}; }
KVASIR_INLINE I32 add_pairs(I32 acc, Pairs x) { return add(acc, x.sum); }
// The compiler must have this sum in registers here (simd/vec_avx512.hpp).
KVASIR_INLINE void pin(I32& x) { asm("" : "+w"(x.a), "+w"(x.b), "+w"(x.c), "+w"(x.d)); }
KVASIR_INLINE void pin(Bytes& x) { asm("" : "+w"(x.a), "+w"(x.b), "+w"(x.c), "+w"(x.d)); }
KVASIR_INLINE void pin(Pairs& x) { pin(x.sum); }

#if KVASIR_HAS_MMLA
// Products of two columns at a time: 2 rows x 8 elements by 8 elements x 2 columns are one instruction.
// x: 16 rows of elements 0 .. 3, y: of elements 4 .. 7; they become rows 0 .. 7 and rows 8 .. 15 of 8 elements.
KVASIR_INLINE void rows_of_eight(Bytes& x, Bytes& y) {
  const auto low = [](uint8x16_t u, uint8x16_t v) __attribute__((always_inline)) {
    return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(u), vreinterpretq_u32_u8(v)));
  };
  const auto high = [](uint8x16_t u, uint8x16_t v) __attribute__((always_inline)) {
    return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(u), vreinterpretq_u32_u8(v)));
  };
  const Bytes first = {low(x.a, y.a), high(x.a, y.a), low(x.b, y.b), high(x.b, y.b)};
  y = {low(x.c, y.c), high(x.c, y.c), low(x.d, y.d), high(x.d, y.d)};
  x = first;
}
// Adds the products of 16 such rows with the 8 bytes at p and those at q.
struct TwoColumns {
  I32 first, last;  // rows 0 .. 7, rows 8 .. 15
};
KVASIR_INLINE void dot_columns(TwoColumns& acc, Bytes first, Bytes last, const std::int8_t* p, const std::int8_t* q) {
  const int8x16_t y = vcombine_s8(vld1_s8(p), vld1_s8(q));
  const auto quarter = [&](int32x4_t sum, uint8x16_t x) __attribute__((always_inline)) {
    return vmmlaq_s32(sum, vreinterpretq_s8_u8(x), y);
  };
  acc.first = KVASIR_EACH2(I32, quarter, acc.first, first);
  acc.last = KVASIR_EACH2(I32, quarter, acc.last, last);
}
KVASIR_INLINE I32 first_column(const TwoColumns& x) {
  return {vuzp1q_s32(x.first.a, x.first.b), vuzp1q_s32(x.first.c, x.first.d), vuzp1q_s32(x.last.a, x.last.b),
          vuzp1q_s32(x.last.c, x.last.d)};
}
KVASIR_INLINE I32 second_column(const TwoColumns& x) {
  return {vuzp2q_s32(x.first.a, x.first.b), vuzp2q_s32(x.first.c, x.first.d), vuzp2q_s32(x.last.a, x.last.b),
          vuzp2q_s32(x.last.c, x.last.d)};
}
#endif

// The 16 bytes at p, four times: a table for lookup16.
KVASIR_INLINE Bytes repeat16(const void* p) {
  const uint8x16_t v = vld1q_u8(static_cast<const std::uint8_t*>(p));
  return {v, v, v, v};
}
// table[i] for every byte i. REQUIRES: i < 16.
KVASIR_INLINE Bytes lookup16(Bytes table, Bytes i) { return KVASIR_EACH2(Bytes, vqtbl1q_u8, table, i); }
// i < 16: low[i], else high[i - 16]. REQUIRES: i < 32.
KVASIR_INLINE uint8x16_t lookup32_quarter(uint8x16_t low, uint8x16_t high, uint8x16_t i) {
  return vqtbl2q_u8(uint8x16x2_t{{low, high}}, i);
}
KVASIR_INLINE Bytes lookup32(Bytes low, Bytes high, Bytes i) {
  return KVASIR_EACH3(Bytes, lookup32_quarter, low, high, i);
}
// Two parts that share 32 bytes: the first is the bytes as they are, the second is the bytes shifted right by n within
// 16-bit lanes. Mask the result.
template <int n>
KVASIR_INLINE Bytes load_unfolded(const void* p) {
  const auto* b = static_cast<const std::uint8_t*>(p);
  const uint8x16_t x = vld1q_u8(b), y = vld1q_u8(b + 16);
  return {x, y, shift_right16_quarter<n>(x), shift_right16_quarter<n>(y)};
}
// The inverse: 32 bytes, first half | second half << n. REQUIRES: no byte crosses into its neighbour.
template <int n>
KVASIR_INLINE void store_folded(void* p, Bytes x) {
  auto* b = static_cast<std::uint8_t*>(p);
  vst1q_u8(b, vorrq_u8(x.a, shift_left16_quarter<n>(x.c)));
  vst1q_u8(b + 16, vorrq_u8(x.b, shift_left16_quarter<n>(x.d)));
}
// Byte r of every lane.
template <int r>
KVASIR_INLINE int32x4_t byte_quarter(uint8x16_t x) {
  uint32x4_t y = vreinterpretq_u32_u8(x);
  if constexpr (r > 0) y = vshrq_n_u32(y, r > 0 ? 8 * r : 8);
  if constexpr (r < 3) y = vandq_u32(y, vdupq_n_u32(255));
  return vreinterpretq_s32_u32(y);
}
template <int r>
KVASIR_INLINE I32 byte(Bytes x) {
  return KVASIR_EACH(I32, byte_quarter<r>, x);
}
template <int r>
KVASIR_INLINE int32x4_t signed_byte_quarter(uint8x16_t x) {
  return vshrq_n_s32(vshlq_n_s32(vreinterpretq_s32_u8(x), 24 - 8 * r), 24);
}
template <int r>
KVASIR_INLINE I32 signed_byte(Bytes x) {
  return KVASIR_EACH(I32, signed_byte_quarter<r>, x);
}
// Byte r of lane i is byte i of the row r of 16 bytes at p + r * stride.
KVASIR_INLINE Bytes interleave4(const std::uint8_t* p, std::ptrdiff_t stride) {
  const uint8x16_t r0 = vld1q_u8(p), r1 = vld1q_u8(p + stride), r2 = vld1q_u8(p + 2 * stride),
                   r3 = vld1q_u8(p + 3 * stride);
  const auto low = [](uint8x16_t x, uint8x16_t y) __attribute__((always_inline)) {
    return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
  };
  const auto high = [](uint8x16_t x, uint8x16_t y) __attribute__((always_inline)) {
    return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
  };
  const uint8x16_t low01 = vzip1q_u8(r0, r1), high01 = vzip2q_u8(r0, r1);
  const uint8x16_t low23 = vzip1q_u8(r2, r3), high23 = vzip2q_u8(r2, r3);
  return {low(low01, low23), high(low01, low23), low(high01, high23), high(high01, high23)};
}

// The two steps of dot_us apart, and sums in between. 16-bit lanes: u[2i] * s[2i] + u[2i+1] * s[2i+1], u unsigned.
// REQUIRES: u <= 127.
KVASIR_INLINE uint8x16_t multiply_pairs_quarter(uint8x16_t u, uint8x16_t s) {
  return vreinterpretq_u8_s16(pair_products(u, s));
}
KVASIR_INLINE Bytes multiply_pairs(Bytes u, Bytes s) { return KVASIR_EACH2(Bytes, multiply_pairs_quarter, u, s); }
KVASIR_INLINE uint8x16_t add16_quarter(uint8x16_t x, uint8x16_t y) {
  return vreinterpretq_u8_u16(vaddq_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
}
KVASIR_INLINE uint8x16_t sub16_quarter(uint8x16_t x, uint8x16_t y) {
  return vreinterpretq_u8_u16(vsubq_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
}
KVASIR_INLINE Bytes add16(Bytes x, Bytes y) { return KVASIR_EACH2(Bytes, add16_quarter, x, y); }
KVASIR_INLINE Bytes sub16(Bytes x, Bytes y) { return KVASIR_EACH2(Bytes, sub16_quarter, x, y); }
// (x[2i] + x[2i+1]) * factor of 16-bit lanes.
KVASIR_INLINE I32 add_pairs(Bytes x, std::int16_t factor) {
  const auto quarter = [&](uint8x16_t v) __attribute__((always_inline)) {
    return vmulq_n_s32(vpaddlq_s16(vreinterpretq_s16_u8(v)), factor);
  };
  return KVASIR_EACH(I32, quarter, x);
}
// Of 16 int8: sum of elements 0, 1 of every four (low 16 bits) and of elements 2, 3.
KVASIR_INLINE std::int32_t pair_sums(const std::int8_t* q) {
  const int16x8_t x = vpaddlq_s8(vld1q_s8(q));
  const int16x4_t y = vadd_s16(vget_low_s16(x), vget_high_s16(x));
  return vget_lane_s32(vreinterpret_s32_s16(vadd_s16(y, vext_s16(y, y, 2))), 0);
}

#if KVASIR_HAS_BF16
// 32-bit lane i: two rows of 16 numbers of 16 bits, row 0's number i in the low half and row 1's in the high one.
KVASIR_INLINE Bytes interleave_rows16(Bytes rows) {
  const auto low = [](uint8x16_t x, uint8x16_t y) __attribute__((always_inline)) {
    return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
  };
  const auto high = [](uint8x16_t x, uint8x16_t y) __attribute__((always_inline)) {
    return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(x), vreinterpretq_u16_u8(y)));
  };
  return {low(rows.a, rows.c), high(rows.a, rows.c), low(rows.b, rows.d), high(rows.b, rows.d)};
}
// 32 numbers, `low` first, rounded to bf16: to nearest even.
KVASIR_INLINE uint8x16_t to_bf16_quarter(float32x4_t x, float32x4_t y) {
  return vreinterpretq_u8_u16(vcombine_u16(bf16_bits(x), bf16_bits(y)));
}
KVASIR_INLINE Bytes to_bf16(F32 low, F32 high) {
  return {to_bf16_quarter(low.a, low.b), to_bf16_quarter(low.c, low.d), to_bf16_quarter(high.a, high.b),
          to_bf16_quarter(high.c, high.d)};
}
// acc + the products of the two bf16 in each lane. How the three are rounded, and whether subnormal numbers count as 0,
// depends on the processor.
KVASIR_INLINE float32x4_t dot_bf16_quarter(float32x4_t acc, uint8x16_t x, uint8x16_t y) {
  return vbfdotq_f32(acc, vreinterpretq_bf16_u8(x), vreinterpretq_bf16_u8(y));
}
KVASIR_INLINE F32 dot_bf16(F32 acc, Bytes x, Bytes y) { return KVASIR_EACH3(F32, dot_bf16_quarter, acc, x, y); }
#endif

// The 64 bytes as 32 numbers of 16 bits: their even bytes, their odd bytes, signed; acc[i] += x[2i] y[2i] + x[2i+1]
// y[2i+1].
KVASIR_INLINE uint8x16_t even_words_quarter(uint8x16_t x) {
  return vreinterpretq_u8_s16(vshrq_n_s16(vshlq_n_s16(vreinterpretq_s16_u8(x), 8), 8));
}
KVASIR_INLINE uint8x16_t odd_words_quarter(uint8x16_t x) {
  return vreinterpretq_u8_s16(vshrq_n_s16(vreinterpretq_s16_u8(x), 8));
}
KVASIR_INLINE int32x4_t dot_words_quarter(int32x4_t acc, uint8x16_t x, uint8x16_t y) {
  const int16x8_t p = vreinterpretq_s16_u8(x), q = vreinterpretq_s16_u8(y);
  return vaddq_s32(acc, vpaddq_s32(vmull_s16(vget_low_s16(p), vget_low_s16(q)), vmull_high_s16(p, q)));
}
KVASIR_INLINE Bytes even_words(Bytes x) { return KVASIR_EACH(Bytes, even_words_quarter, x); }
KVASIR_INLINE Bytes odd_words(Bytes x) { return KVASIR_EACH(Bytes, odd_words_quarter, x); }
KVASIR_INLINE I32 dot_words(I32 acc, Bytes x, Bytes y) { return KVASIR_EACH3(I32, dot_words_quarter, acc, x, y); }

#undef KVASIR_EACH
#undef KVASIR_EACH2
#undef KVASIR_EACH3

}  // namespace kvasir::simd::KVASIR_TARGET
