#include "kernel/peak.hpp"

#if defined(KVASIR_TARGET_scalar)
#include <cstring>
#elif defined(__aarch64__)
#include <arm_neon.h>
#else
#include "simd/x86.hpp"
#endif

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

// Tells the compiler that a register has changed, so that it can neither hoist nor fold the work on it; no instruction.
#if defined(KVASIR_TARGET_scalar)
#if defined(__x86_64__)
#define KVASIR_CHANGED(x) asm volatile("" : "+x"(x))
#else
#define KVASIR_CHANGED(x) asm volatile("" : "+w"(x))
#endif
#elif defined(KVASIR_TARGET_avx2) || defined(KVASIR_TARGET_avxvnni)
#define KVASIR_CHANGED(x) asm volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define KVASIR_CHANGED(x) asm volatile("" : "+w"(x))
#else
#define KVASIR_CHANGED(x) asm volatile("" : KVASIR_WIDE_REGISTER(x))
#endif

// Latency 4 or 5 cycles times 2 per cycle needs 10 accumulators; 12 and two operands fit the 16 registers of AVX2. ARM
// has 32, and processors that do 4 per cycle.
#if defined(__aarch64__)
constexpr int kAccumulators = 20;
#else
constexpr int kAccumulators = 12;
#endif
constexpr int kSteps = 32;  // per round

#if defined(KVASIR_TARGET_scalar)

std::int64_t int8_dot(std::int64_t rounds, float* sink) {
  std::uint32_t acc[kAccumulators] = {};  // wraps
  std::uint8_t a = 2;
  std::int8_t b = -3;
  for (std::int64_t r = 0; r < rounds * kSteps; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) {
      asm volatile("" : "+r"(a));
      asm volatile("" : "+r"(b));
      acc[i] += static_cast<std::uint32_t>(a * b);
      asm volatile("" : "+r"(acc[i]));
    }
  }
  std::uint32_t sum = 0;
  for (std::uint32_t v : acc) sum += v;
  *sink = static_cast<float>(static_cast<std::int32_t>(sum));
  return rounds * kSteps * kAccumulators * 2;
}

std::int64_t f32_fma(std::int64_t rounds, float* sink) {
  float acc[kAccumulators] = {}, a = 0.5f, b = 0.25f;
  for (std::int64_t r = 0; r < rounds * kSteps; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) {
      KVASIR_CHANGED(a);
      acc[i] += a * b;
    }
  }
  float sum = 0;
  for (float v : acc) sum += v;
  *sink = sum;
  return rounds * kSteps * kAccumulators * 2;
}

std::int64_t bf16_dot(std::int64_t rounds, float* sink) {
  float acc[kAccumulators] = {}, b = 0.5f, c = 0.5f;
  std::uint32_t pair = 0x3F003E80;  // two bf16
  for (std::int64_t r = 0; r < rounds * kSteps; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) {
      asm volatile("" : "+r"(pair));
      const std::uint32_t low = pair << 16, high = pair & 0xFFFF0000u;
      float x, y;
      std::memcpy(&x, &low, 4);
      std::memcpy(&y, &high, 4);
      acc[i] += x * b;
      acc[i] += y * c;
    }
  }
  float sum = 0;
  for (float v : acc) sum += v;
  *sink = sum;
  return rounds * kSteps * kAccumulators * 4;
}

template <std::size_t streams, std::size_t ahead>
std::uint64_t read(const std::byte* data, std::size_t bytes) {
  const std::size_t part = bytes / streams;
  std::uint64_t acc[8] = {};
  for (std::size_t at = 0; at < part; at += 64)
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const std::byte* line = data + stream * part + at;
      if constexpr (ahead > 0) __builtin_prefetch(line + ahead);
      for (std::size_t i = 0; i < 8; ++i) {
        std::uint64_t word;
        std::memcpy(&word, line + 8 * i, 8);
        acc[i] += word;
      }
    }
  std::uint64_t sum = 0;
  for (std::uint64_t v : acc) sum += v;
  return sum;
}

#else  // vectors

#if defined(KVASIR_TARGET_avx2) || defined(KVASIR_TARGET_avxvnni)
using F = __m256;
using I = __m256i;
constexpr int kWidth = 32;  // bytes
inline F set_f(float x) { return _mm256_set1_ps(x); }
inline I set_i(int x) { return _mm256_set1_epi32(x); }
[[maybe_unused]] inline F as_f(I x) { return _mm256_castsi256_ps(x); }
inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F add_f(F a, F b) { return _mm256_add_ps(a, b); }
inline I add_i(I a, I b) { return _mm256_add_epi64(a, b); }
inline F to_f(I x) { return _mm256_cvtepi32_ps(x); }
[[maybe_unused]] inline I low_half(I x) { return _mm256_slli_epi32(x, 16); }
[[maybe_unused]] inline I high_half(I x, I mask) { return _mm256_and_si256(x, mask); }
inline I load(const std::byte* p) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(p)); }
#if defined(KVASIR_TARGET_avxvnni)
inline I dot_u8_i8(I acc, I a, I b, I) {
#if defined(KVASIR_AVX_VNNI_BY_AVX512)
  return _mm256_dpbusd_epi32(acc, a, b);
#else
  return _mm256_dpbusd_avx_epi32(acc, a, b);
#endif
}
#else
inline I dot_u8_i8(I acc, I a, I b, I ones) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
}
#endif
inline void store_f(float* p, F x) { _mm256_storeu_ps(p, x); }
inline void store_i(std::uint64_t* p, I x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
#elif defined(__aarch64__)
using F = float32x4_t;
using I = int32x4_t;
constexpr int kWidth = 16;  // bytes
inline F set_f(float x) { return vdupq_n_f32(x); }
inline I set_i(int x) { return vdupq_n_s32(x); }
[[maybe_unused]] inline F as_f(I x) { return vreinterpretq_f32_s32(x); }
[[maybe_unused]] inline F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
inline F add_f(F a, F b) { return vaddq_f32(a, b); }
inline I add_i(I a, I b) {
  return vreinterpretq_s32_s64(vaddq_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
inline F to_f(I x) { return vcvtq_f32_s32(x); }
[[maybe_unused]] inline I low_half(I x) { return vshlq_n_s32(x, 16); }
[[maybe_unused]] inline I high_half(I x, I mask) { return vandq_s32(x, mask); }
inline I load(const std::byte* p) { return vld1q_s32(reinterpret_cast<const std::int32_t*>(p)); }
inline I dot_u8_i8(I acc, I a, I b, I) {
  const int8x16_t x = vreinterpretq_s8_s32(a), y = vreinterpretq_s8_s32(b);
#if defined(KVASIR_TARGET_neon)
  return vpadalq_s16(acc, vpaddq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)), vmull_high_s8(x, y)));
#else
  return vdotq_s32(acc, x, y);
#endif
}
inline void store_f(float* p, F x) { vst1q_f32(p, x); }
inline void store_i(std::uint64_t* p, I x) { vst1q_u64(p, vreinterpretq_u64_s32(x)); }
#else
using F = __m512;
using I = __m512i;
constexpr int kWidth = 64;  // bytes
inline F set_f(float x) { return _mm512_set1_ps(x); }
inline I set_i(int x) { return _mm512_set1_epi32(x); }
[[maybe_unused]] inline F as_f(I x) { return _mm512_castsi512_ps(x); }
inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F add_f(F a, F b) { return _mm512_add_ps(a, b); }
inline I add_i(I a, I b) { return _mm512_add_epi64(a, b); }
inline F to_f(I x) { return _mm512_cvtepi32_ps(x); }
[[maybe_unused]] inline I low_half(I x) { return _mm512_slli_epi32(x, 16); }
[[maybe_unused]] inline I high_half(I x, I mask) { return _mm512_and_si512(x, mask); }
inline I load(const std::byte* p) { return _mm512_load_si512(p); }
inline I dot_u8_i8(I acc, I a, I b, I) { return _mm512_dpbusd_epi32(acc, a, b); }
inline void store_f(float* p, F x) { _mm512_storeu_ps(p, x); }
inline void store_i(std::uint64_t* p, I x) { _mm512_storeu_si512(p, x); }
#endif

void drain(const F* acc, float* sink) {
  F sum = acc[0];
  for (int i = 1; i < kAccumulators; ++i) sum = add_f(sum, acc[i]);
  float lanes[kWidth / 4];
  store_f(lanes, sum);
  float total = 0;
  for (float v : lanes) total += v;
  *sink = total;
}

std::int64_t int8_dot(std::int64_t rounds, float* sink) {
  I acc[kAccumulators];
  // All three loops unrolled and every sum changed in its place, or GCC 12 keeps sums in memory: 7 % slower.
#pragma GCC unroll 20
  for (I& v : acc) v = set_i(0);
  I a = set_i(0x02020202);
  const I b = set_i(static_cast<int>(0xFDFDFDFDu));  // 2 times -3
  const I ones = set_i(0x00010001);
  for (std::int64_t r = 0; r < rounds * kSteps; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) {
      KVASIR_CHANGED(a);
      acc[i] = dot_u8_i8(acc[i], a, b, ones);
      KVASIR_CHANGED(acc[i]);
    }
  }
  F out[kAccumulators];
#pragma GCC unroll 20
  for (int i = 0; i < kAccumulators; ++i) out[i] = to_f(acc[i]);
  drain(out, sink);
  return rounds * kSteps * kAccumulators * kWidth * 2;
}

std::int64_t f32_fma(std::int64_t rounds, float* sink) {
  F acc[kAccumulators];
  for (F& v : acc) v = set_f(0);
  F a = set_f(0.5f);
  const F b = set_f(0.25f);
  for (std::int64_t r = 0; r < rounds * kSteps; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) {
      KVASIR_CHANGED(a);
      acc[i] = fma(a, b, acc[i]);
    }
  }
  drain(acc, sink);
  return rounds * kSteps * kAccumulators * (kWidth / 4) * 2;
}

std::int64_t bf16_dot(std::int64_t rounds, float* sink) {
  F acc[kAccumulators];
  for (F& v : acc) v = set_f(0);
#if defined(KVASIR_WITH_BF16) || defined(KVASIR_TARGET_neoni8mm)
  I a = set_i(0x3F003E80);
  // Unequal halves: of equal ones g++ 12 makes an immediate of f16 on ARM, which has other bits.
  const I b = set_i(0x3E803F80);  // 1 and 0.25
  for (std::int64_t r = 0; r < rounds * kSteps; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) {
      KVASIR_CHANGED(a);
#if defined(__aarch64__)
      acc[i] = vbfdotq_f32(acc[i], vreinterpretq_bf16_s32(a), vreinterpretq_bf16_s32(b));
#else
      acc[i] = _mm512_dpbf16_ps(acc[i], (__m512bh)a, (__m512bh)b);
#endif
    }
  }
#else
  I pair = set_i(0x3F003E80);
  const I mask = set_i(static_cast<int>(0xFFFF0000u));
  const F b = set_f(0.5f);
  for (std::int64_t r = 0; r < rounds * kSteps; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kAccumulators; ++i) {
      KVASIR_CHANGED(pair);
      acc[i] = fma(as_f(low_half(pair)), b, acc[i]);
      acc[i] = fma(as_f(high_half(pair, mask)), b, acc[i]);
    }
  }
#endif
  drain(acc, sink);
  return rounds * kSteps * kAccumulators * (kWidth / 2) * 2;
}

template <std::size_t streams, std::size_t ahead>
std::uint64_t read(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kLoads = 256 / kWidth;
  const std::size_t part = bytes / streams;
  I acc[kLoads];
  for (I& v : acc) v = set_i(0);
  for (std::size_t at = 0; at < part; at += 256)
    for (std::size_t stream = 0; stream < streams; ++stream) {
      const std::byte* p = data + stream * part + at;
      if constexpr (ahead > 0) {
#pragma GCC unroll 4
        for (std::size_t line = 0; line < 256; line += 64) __builtin_prefetch(p + ahead + line);
      }
#pragma GCC unroll 16
      for (std::size_t i = 0; i < kLoads; ++i) acc[i] = add_i(acc[i], load(p + i * kWidth));
    }
  for (std::size_t i = 1; i < kLoads; ++i) acc[0] = add_i(acc[0], acc[i]);
  std::uint64_t lanes[kWidth / 8];
  store_i(lanes, acc[0]);
  std::uint64_t sum = 0;
  for (std::uint64_t v : lanes) sum += v;
  return sum;
}

#endif

}  // namespace

extern const PeakKernels peak_table;
const PeakKernels peak_table = {
    int8_dot, bf16_dot, f32_fma, {read<kStreams, kInterleavedAhead>, read<1, 0>, read<1, kAheadBytes>}};

}  // namespace kvasir::kernel::KVASIR_TARGET
