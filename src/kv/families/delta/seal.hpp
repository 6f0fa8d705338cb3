// Sealing of delta3 and delta4 (kv/families/delta/codec.hpp): the closed loop.
#pragma once

#include "kv/families/delta/codec.hpp"
#include "kv/families/packed/pack.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// The nearest level to x / s, as magnitudes: levels are kMax / 2 - table[i] for the lower half of the table.
template <int B>
struct DeltaQuantiser {
  static constexpr int kHalf = 1 << (B - 1);
  // Magnitude i, increasing.
  static constexpr float magnitude(int i) {
    return static_cast<float>(DeltaLevels<B>::kTable[kHalf + i]) - 0.5f * DeltaLevels<B>::kMax;
  }
  static constexpr float kTop = 0.5f * DeltaLevels<B>::kMax;

  struct Nearest {
    F32 level;  // magnitude
    F32 index;  // 0 .. kHalf - 1
  };
  KVASIR_INLINE Nearest nearest(F32 absolute, float s) {
    Nearest n{set1(magnitude(0)), zero()};
    KVASIR_UNROLL(8)
    for (int i = 1; i < kHalf; ++i) {
      const F32 limit = set1(0.5f * (magnitude(i - 1) + magnitude(i)) * s);
      n.level = n.level + zero_if_less(absolute, limit, set1(magnitude(i) - magnitude(i - 1)));
      n.index = n.index + zero_if_less(absolute, limit, set1(1.0f));
    }
    return n;
  }

  // The scale of least squares for the levels that `trial` assigns, and how much of |x|^2 it explains.
  struct Fit {
    float scale;
    float explained;
  };
  static Fit fit(const float* x, int d, float trial) {
    F32 xm = zero();
    F32 mm = zero();
    for (int c = 0; c < d; c += kLanes) {
      const F32 a = abs(load(x + c));
      const F32 m = nearest(a, trial).level;
      xm = fma(a, m, xm);
      mm = fma(m, m, mm);
    }
    const float p = reduce_add(xm);
    const float scale = p / reduce_add(mm);
    return {scale, p * scale};
  }

  // The best stored scale found. The error has several minima between a scale for the largest element and one for the
  // bulk, so a few trials spread between these are each improved once.
  static std::uint16_t scale(const float* x, int d) {
    F32 largest = zero();
    for (int c = 0; c < d; c += kLanes) largest = max(largest, abs(load(x + c)));
    const float top = reduce_max(largest) / kTop;
    if (top == 0.0f) return 0;
    constexpr int kTrials = 8;
    Fit best{0.0f, -1.0f};
    for (int i = 0; i < kTrials; ++i) {
      const float trial = top * (1.0f - static_cast<float>(i) * (0.65f / (kTrials - 1)));
      const Fit f = fit(x, d, trial);
      if (f.explained > best.explained) best = f;
    }
    return simd::f32_to_f16(fit(x, d, best.scale).scale);
  }

  // Codes of x with scale s, and prediction += what they stand for.
  static void encode(const float* x, int d, float s, std::uint8_t* codes, float* prediction) {
    for (int c = 0; c < d; c += kLanes) {
      const F32 v = load(x + c);
      const Nearest n = nearest(abs(v), s);
      const F32 positive = zero_if_less(v, zero(), set1(1.0f));
      // kHalf + index, or kHalf - 1 - index
      const F32 code = set1(kHalf - 1.0f) - n.index + positive * (n.index + n.index + set1(1.0f));
      store_low_bytes(codes + c, to_i32(code));
      const F32 sign = positive + positive - set1(1.0f);
      store(prediction + c, load(prediction + c) + set1(s) * (sign * n.level));
    }
  }
};

template <int B>
struct DeltaSeal {
  using Page = DeltaPage<B>;
  using Quantiser = DeltaQuantiser<B>;

  // Rows of a raw page of half floats, token-major; what is not finite becomes the largest number.
  static void load_rows(const std::byte* raw, int d, float* rows) {
    const auto* x = reinterpret_cast<const std::uint16_t*>(raw);
    float line[kLanes];
    for (int t = 0; t < kPageTokens; t += kLanes)
      for (int c = 0; c < d; ++c) {
        const F32 v = load_f16(x + static_cast<std::ptrdiff_t>(c) * kPageTokens + t);
        store(line, min(max(v, set1(-65504.0f)), set1(65504.0f)));  // NaN gives the second operand
        for (int i = 0; i < kLanes; ++i) rows[static_cast<std::ptrdiff_t>(t + i) * d + c] = line[i];
      }
  }

  // Stores x as the base of segment s and sets prediction to what was stored. Null: zeros.
  static void store_base(const Page& p, std::byte* page, int s, const float* x, float* prediction) {
    float largest = 0;
    for (int c = 0; x && c < p.d; ++c) largest = __builtin_fabsf(x[c]) > largest ? __builtin_fabsf(x[c]) : largest;
    const std::uint16_t h = simd::f32_to_f16(largest / 7.5f);
    __builtin_memcpy(page + p.base_scales_at() + static_cast<std::size_t>(s) * sizeof h, &h, sizeof h);
    const float scale = simd::f16_to_f32(h);
    auto* to = reinterpret_cast<std::uint8_t*>(page + p.base_at(s));
    for (int c = 0; c < p.d; ++c) {
      int code = 0;
      if (scale > 0) {
        const float v = __builtin_nearbyintf(x[c] / scale + 7.5f);
        code = static_cast<int>(v < 0 ? 0.0f : v > 15 ? 15.0f : v);
      }
      prediction[c] = scale * (static_cast<float>(code) - 7.5f);
      const int i = c % (p.d / 2);
      to[i] = static_cast<std::uint8_t>(c < p.d / 2 ? code : to[i] | code << 4);
    }
  }

  static void seal(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    const Page p(head);
    const int d = p.d;
    float* rows = scratch;                                                         // (128, d)
    auto* codes = reinterpret_cast<std::uint8_t*>(rows + kPageTokens * d);         // (128, d)
    float* prediction = rows + kPageTokens * d + kPageTokens * d / sizeof(float);  // (d)
    load_rows(raw, d, rows);
    for (int t = 0; t < kPageTokens; ++t) {
      // A segment that begins among the rows left out has the first row behind them for base, if it has one.
      const int s = t / p.segment;
      if (t % p.segment == 0) {
        const int first = t < skip ? skip : t;
        store_base(p, page, s, first < t + p.segment ? rows + static_cast<std::ptrdiff_t>(first) * d : nullptr,
                   prediction);
      }
      std::uint8_t* to = codes + static_cast<std::ptrdiff_t>(t) * d;
      std::uint16_t h = 0;
      if (t >= skip) {
        float* difference = rows + static_cast<std::ptrdiff_t>(t) * d;
        for (int c = 0; c < d; ++c) difference[c] -= prediction[c];
        h = Quantiser::scale(difference, d);
        if (h != 0) Quantiser::encode(difference, d, simd::f16_to_f32(h), to, prediction);
      }
      if (h == 0) __builtin_memset(to, 0, static_cast<std::size_t>(d));
      __builtin_memcpy(page + p.scales_at() + static_cast<std::size_t>(t) * sizeof h, &h, sizeof h);
    }
    pack_matrix_transposed<B>(codes, kPageTokens, d, page);
  }
};

template <int B>
constexpr Codec delta_codec(const char* summary) {
  return {.summary = summary,
          .raw_type = RawType::kF16,
          .lossless = false,
          .refuse = Delta<B>::refuse,
          .k = {.bytes = Delta<B>::bytes, .seal = DeltaSeal<B>::seal, .unseal = Delta<B>::unseal},
          .dots = Delta<B>::dots};
}

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
