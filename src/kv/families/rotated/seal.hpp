// Sealing for kv/families/rotated/codec.hpp: keys stand in columns (lanes are tokens), values in rows (lanes are
// channels).
#pragma once

#include "kv/families/packed/pack.hpp"
#include "kv/families/rotated/codec.hpp"
#include "kv/families/rotated/tiles.hpp"
#include "kv/feedback.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// The nearest level to each |y| / sigma: its magnitude in integer levels, and the code of y.
template <int B>
struct Nearest {
  F32 level;  // with the sign of y
  F32 code;

  // inverse: 1 / root mean square of the vector (B < 8), 127 / its largest element (B = 8)
  KVASIR_INLINE Nearest of([[maybe_unused]] const IntegerLevels* table, F32 y, F32 inverse) {
    if constexpr (B == 8) {
      const F32 level = round(mul(y, inverse));
      return {level, add(level, set1(128.0f))};
    } else {
      constexpr int kHalf = 1 << (B - 1);
      const F32 size = mul(abs(y), inverse);
      F32 level = set1(table->magnitudes[0]);
      F32 index = set1(0.5f);
      KVASIR_UNROLL(16)
      for (int i = 0; i + 1 < kHalf; ++i) {
        const F32 bound = set1(table->boundaries[i]);
        level = add(level, zero_if_less(size, bound, set1(table->steps[i])));
        index = add(index, zero_if_less(size, bound, set1(1.0f)));
      }
      const F32 sign = sub(zero_if_less(y, zero(), set1(2.0f)), set1(1.0f));
      return {mul(sign, level), fma(sign, index, set1(kHalf - 0.5f))};
    }
  }
};

// Scale of a row from its sums: y^2, y l, l^2.
KVASIR_INLINE F32 scale_of(F32 yy, F32 yl, F32 ll, bool unbiased) {
  const F32 top = unbiased ? yy : yl;
  const F32 bottom = unbiased ? yl : ll;
  return zero_if_less(bottom, set1(1e-30f), div(top, max(bottom, set1(1e-30f))));
}

// The state of a head: a rotation, then float factors[d] of its keys, then 1 / factors[d].
inline float* factors_of(void* state, int d) {
  return reinterpret_cast<float*>(static_cast<std::byte*>(state) + kernel::rotation_bytes(d));
}
inline const float* factors_of(const void* state, int d) { return factors_of(const_cast<void*>(state), d); }

// Raw numbers that are not finite, and such as would overflow a sum of squares, at the edge of f16's range.
KVASIR_INLINE F32 load_raw(const std::uint16_t* p) { return min(max(load_f16(p), set1(-65504.0f)), set1(65504.0f)); }

template <int B>
struct RotatedSeal {
  using Page = RotatedPage<B>;

  // Rotates, takes the means off and leaves the rest in `y`. Sums over `rows` vectors that are `pitch` floats apart
  // give a channel's mean; a channel of keys is a row of y, of values a column.
  static void seal_k(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    const int d = head.d;
    const auto* x = reinterpret_cast<const std::uint16_t*>(raw);
    float* y = scratch;
    auto* codes = reinterpret_cast<std::uint8_t*>(scratch + static_cast<std::ptrdiff_t>(kPageTokens) * d);
    const float* const shares = factors_of(head.state, d) + d;
    for (int c = 0; c < d; ++c) {
      const F32 share = set1(shares[c]);
      for (int t = 0; t < kPageTokens; t += kLanes)
        store(y + c * kPageTokens + t, mul(load_raw(x + c * kPageTokens + t), share));
      for (int t = 0; t < skip; ++t) y[c * kPageTokens + t] = 0;
    }
    kernel::KVASIR_TARGET::rotate_table.forward_columns(head.state, d, kPageTokens, y, kPageTokens);
    auto* means = reinterpret_cast<std::int8_t*>(page + 2 * kPageTokens);
    const float per_row = skip < kPageTokens ? 1.0f / static_cast<float>(kPageTokens - skip) : 0.0f;
    for (int c = 0; c < d; ++c) {
      F32 sum = zero();
      for (int t = 0; t < kPageTokens; t += kLanes) sum = add(sum, load(y + c * kPageTokens + t));
      means[c] = encode_mean(reduce_add(sum) * per_row);
    }
    alignas(64) float mean[kernel::kMaxRotated];
    for (int c = 0; c < d; c += kLanes) store(mean + c, decode_mean(means + c));
    auto* scales = reinterpret_cast<std::uint16_t*>(page);
    const auto put_scale = [&](int t, F32 g) {
      store_f16(scales + t, skip > t ? select_first(skip - t < kLanes ? skip - t : kLanes, zero(), g) : g);
    };
    bool fed_back = false;
    if constexpr (B < 8) {
      fed_back = head.feedback != nullptr;
      // Behind y and the codes: 2 d kWide of the 96 d floats that are left.
      float* const room = scratch + static_cast<std::ptrdiff_t>(kPageTokens + kPageTokens / 4) * d;
      for (int t = 0; fed_back && t < kPageTokens; t += kWide) {
        F32 g[kVectors];
        encode_columns_fed_back(y + t, mean, head, room, codes + t, g);
        for (int i = 0; i < kVectors; ++i) put_scale(t + i * kLanes, g[i]);
      }
    }
    for (int t = 0; !fed_back && t < kPageTokens; t += kLanes)
      put_scale(t, encode_columns(y + t, mean, d, head.params.unbiased, codes + t));
    for (int c = 0; c < d; ++c) __builtin_memset(codes + c * kPageTokens, 0, static_cast<std::size_t>(skip));
    pack(codes, kPageTokens, kPageTokens, d, page + 2 * kPageTokens + d);
  }

  // 16 tokens, one per lane.
  KVASIR_INLINE F32 encode_columns(const float* y, const float* mean, int d, bool unbiased, std::uint8_t* codes) {
    F32 yy = zero();
    F32 largest = zero();
    for (int c = 0; c < d; ++c) {
      const F32 v = sub(load(y + c * kPageTokens), set1(mean[c]));
      yy = fma(v, v, yy);
      if constexpr (B == 8) largest = max(largest, abs(v));
    }
    const IntegerLevels* table = levels();
    const F32 inverse = inverse_size(yy, largest, d);
    F32 yl = zero();
    F32 ll = zero();
    for (int c = 0; c < d; ++c) {
      const F32 v = sub(load(y + c * kPageTokens), set1(mean[c]));
      const Nearest<B> n = Nearest<B>::of(table, v, inverse);
      yl = fma(v, n.level, yl);
      ll = fma(n.level, n.level, ll);
      store_low_bytes(codes + c * kPageTokens, to_i32(n.code));
    }
    return scale_of(yy, yl, ll, unbiased);
  }

  // kVectors times 16 tokens by kv/feedback.hpp, in units of each token's root mean square. The scale g is the one that
  // is best in the metric: of least squares, <k, k^> / <k^, k^>, or with `unbiased` <k, k>/<k, k^>, for which the
  // scores of the queries have slope 1. z = V^T k, channel by channel. room: 2 d kWide floats.
  static constexpr int kVectors = 2;
  static constexpr int kWide = kVectors * kLanes;
  KVASIR_INLINE void encode_columns_fed_back(const float* y, const float* mean, const Head& head, float* room,
                                             std::uint8_t* codes, F32* g) {
    const int d = head.d;
    const IntegerLevels* table = levels();
    const float unit = 2 * table->boundaries[0] / (table->magnitudes[0] + table->magnitudes[1]);  // of integer levels
    float* const rows = room;                                                                     // k, (d, kWide)
    float* const errors = room + static_cast<std::ptrdiff_t>(d) * kWide;
    F32 inverse[kVectors];
    KVASIR_UNROLL(2)
    for (int i = 0; i < kVectors; ++i) {
      F32 squares = zero();
      for (int c = 0; c < d; ++c) {
        const F32 v = sub(load(y + c * kPageTokens + i * kLanes), set1(mean[c]));
        squares = fma(v, v, squares);
      }
      inverse[i] = inverse_size(squares, zero(), d);
      for (int c = 0; c < d; ++c) {
        const F32 v = sub(load(y + c * kPageTokens + i * kLanes), set1(mean[c]));
        store(rows + c * kWide + i * kLanes, mul(v, inverse[i]));
      }
    }
    F32 kk[kVectors], kl[kVectors], ll[kVectors];
    KVASIR_UNROLL(2)
    for (int i = 0; i < kVectors; ++i) kk[i] = kl[i] = ll[i] = zero();
    const float* carried = head.feedback + d;  // C of channel c
    for (int c = 0; c < d; carried += c, ++c) {
      F32 before[kVectors], owed[kVectors];  // sum C k, sum C e
      KVASIR_UNROLL(2)
      for (int i = 0; i < kVectors; ++i) before[i] = owed[i] = zero();
      for (int b = 0; b < c; ++b) {
        const F32 share = set1(carried[b]);
        KVASIR_UNROLL(2)
        for (int i = 0; i < kVectors; ++i) {
          before[i] = fma(share, load(rows + b * kWide + i * kLanes), before[i]);
          owed[i] = fma(share, load(errors + b * kWide + i * kLanes), owed[i]);
        }
      }
      const F32 weight = set1(head.feedback[c]);
      KVASIR_UNROLL(2)
      for (int i = 0; i < kVectors; ++i) {
        const F32 own = load(rows + c * kWide + i * kLanes);
        const F32 want = add(own, owed[i]);
        const Nearest<B> n = Nearest<B>::of(table, want, set1(1.0f));
        const F32 level = mul(n.level, set1(unit));
        store(errors + c * kWide + i * kLanes, sub(own, level));
        store_low_bytes(codes + c * kPageTokens + i * kLanes, to_i32(n.code));
        const F32 zk = add(own, before[i]);
        const F32 zl = sub(zk, sub(want, level));
        const F32 weighted = mul(weight, zk);
        kk[i] = fma(weighted, zk, kk[i]);
        kl[i] = fma(weighted, zl, kl[i]);
        ll[i] = fma(mul(weight, zl), zl, ll[i]);
      }
    }
    // A key that the queries hardly see has a scale of its own size, not one of its noise.
    KVASIR_UNROLL(2)
    for (int i = 0; i < kVectors; ++i) {
      const F32 best = scale_of(kk[i], kl[i], ll[i], head.params.unbiased);
      g[i] = div(mul(min(max(best, set1(0.5f)), set1(2.0f)), set1(unit)), inverse[i]);
    }
  }

  KVASIR_INLINE const IntegerLevels* levels() {
    if constexpr (B == 8) return nullptr;
    return &integer_levels(B == 8 ? 5 : B);
  }

  KVASIR_INLINE F32 inverse_size(F32 yy, F32 largest, int d) {
    const F32 tiny = set1(1e-30f);
    if constexpr (B == 8) return div(set1(127.0f), max(largest, tiny));
    return div(set1(1.0f), max(sqrt(mul(yy, set1(1.0f / static_cast<float>(d)))), tiny));
  }

  static void seal_v(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    const int d = head.d;
    const auto* x = reinterpret_cast<const std::uint16_t*>(raw);
    float* y = scratch;
    auto* codes = reinterpret_cast<std::uint8_t*>(scratch + static_cast<std::ptrdiff_t>(kPageTokens) * d);
    for (int i = 0; i < kPageTokens * d; i += kLanes) store(y + i, i < skip * d ? zero() : load_raw(x + i));
    kernel::KVASIR_TARGET::rotate_table.forward(head.state, d, kPageTokens, y, d);
    auto* means = reinterpret_cast<std::int8_t*>(page + 2 * kPageTokens);
    const float per_row = skip < kPageTokens ? 1.0f / static_cast<float>(kPageTokens - skip) : 0.0f;
    alignas(64) float sums[kLanes];
    for (int c = 0; c < d; c += kLanes) {
      F32 sum = zero();
      for (int t = 0; t < kPageTokens; ++t) sum = add(sum, load(y + t * d + c));
      store(sums, mul(sum, set1(per_row)));
      for (int i = 0; i < kLanes; ++i) means[c + i] = encode_mean(sums[i]);
    }
    alignas(64) float mean[kernel::kMaxRotated];
    for (int c = 0; c < d; c += kLanes) store(mean + c, decode_mean(means + c));
    alignas(64) float scales[kPageTokens] = {};
    for (int t = skip; t < kPageTokens; ++t)
      scales[t] = encode_row(y + t * d, mean, d, head.params.unbiased, codes + t * d);
    __builtin_memset(codes, 0, static_cast<std::size_t>(skip) * static_cast<std::size_t>(d));
    for (int t = 0; t < kPageTokens; t += kLanes)
      store_f16(reinterpret_cast<std::uint16_t*>(page) + t, load(scales + t));
    pack(codes, d, d, kPageTokens, page + 2 * kPageTokens + d);
  }

  KVASIR_INLINE float encode_row(const float* y, const float* mean, int d, bool unbiased, std::uint8_t* codes) {
    F32 yy = zero();
    F32 largest = zero();
    for (int c = 0; c < d; c += kLanes) {
      const F32 v = sub(load(y + c), load(mean + c));
      yy = fma(v, v, yy);
      if constexpr (B == 8) largest = max(largest, abs(v));
    }
    yy = set1(reduce_add(yy));
    const IntegerLevels* table = levels();
    const F32 inverse = inverse_size(yy, set1(reduce_max(largest)), d);
    F32 yl = zero();
    F32 ll = zero();
    for (int c = 0; c < d; c += kLanes) {
      const F32 v = sub(load(y + c), load(mean + c));
      const Nearest<B> n = Nearest<B>::of(table, v, inverse);
      yl = fma(v, n.level, yl);
      ll = fma(n.level, n.level, ll);
      store_low_bytes(codes + c, to_i32(n.code));
    }
    const F32 g = scale_of(yy, set1(reduce_add(yl)), set1(reduce_add(ll)), unbiased);
    return reduce_max(g);
  }

  // codes[depth * stride + lane] to panels.
  static void pack(const std::uint8_t* codes, std::ptrdiff_t stride, int lanes, int depth, std::byte* to) {
    for (int i = 0; i < lanes; i += kPackedLanes, to += packed_panel_bytes(B, depth))
      pack_panel<B>(codes + i, stride, depth, to);
  }
};

template <int B>
struct Rotated {
  static const char* refuse(int d, Side, CodecParams* params) {
    if (params->group) return "it has no groups";
    if (d > 0 && d % 16 == 0 && kernel::can_rotate(d)) return nullptr;
    return "the head size must be a multiple of 16, at most 1024";
  }
  static std::size_t bytes(int d, const CodecParams&) { return RotatedPage<B>::bytes(d); }
  static std::size_t state_bytes(int d) {
    return kernel::rotation_bytes(d) + 2 * static_cast<std::size_t>(d) * sizeof(float);
  }
  static void init_state(void* state, int d, Side side, int layer, int kv_head) {
    integer_levels(B == 8 ? 5 : B);  // computed now, because sealing must not allocate
    kernel::make_rotation(state, d, kernel::rotation_seed(kRotationSeed, layer, kv_head, side == Side::kKeys ? 0 : 1));
    float* const factors = factors_of(state, d);
    for (int i = 0; i < 2 * d; ++i) factors[i] = 1.0f;
  }
  static void set_factors(void* state, int d, const float* factors) {
    float* const to = factors_of(state, d);
    for (int c = 0; c < d; ++c) {
      to[c] = factors[c];
      to[d + c] = 1.0f / factors[c];
    }
  }
  static void scale(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    const float* const factors = factors_of(head.state, head.d);
    for (int r = 0; r < rows; ++r, x += stride)
      for (int c = 0; c < head.d; c += kLanes) store(x + c, mul(load(x + c), load(factors + c)));
  }
  static void to_basis_k(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    scale(head, rows, x, stride);
    to_basis(head, rows, x, stride);
  }
  static void from_basis_k(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    from_basis(head, rows, x, stride);
    scale(head, rows, x, stride);
  }
  static void to_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    kernel::KVASIR_TARGET::rotate_table.forward(head.state, head.d, rows, x, stride);
  }
  static void from_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    kernel::KVASIR_TARGET::rotate_table.inverse(head.state, head.d, rows, x, stride);
  }

  // Of Gaussian rows: Lloyd and Max; 44 dB at 8 bits.
  static double distortion() { return B == 8 ? 4e-5 : integer_levels(B).mse; }

  // Least squares shrinks keys and values, by 12 % at 2 bits. A softmax feels that more than the noise that it saves,
  // so shares are of the unbiased form.
  static constexpr Codec codec(const char* summary) {
    using Products = RotatedProducts<B>;
    using Seal = RotatedSeal<B>;
    return {.summary = summary,
            .raw_type = RawType::kF16,
            .lossless = false,
            .refuse = refuse,
            .state_bytes = state_bytes,
            .init_state = init_state,
            .set_factors = set_factors,
            .k = {bytes, Seal::seal_k, Products::unseal_k, to_basis_k, from_basis_k},
            .v = {bytes, Seal::seal_v, Products::unseal_v, to_basis, from_basis},
            .dots = Products::dots,
            .accumulate = Products::accumulate,
            .feeds_back = B < 8,
            .packed_prompts = true,
            .automatic = true,
            .share_distortion = distortion,
            .share_params = B < 8 ? ":unbiased" : ""};
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
