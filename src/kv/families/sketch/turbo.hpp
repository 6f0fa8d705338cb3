// TurboQuant_prod (Zandieh et al. 2025, arXiv 2504.19874, algorithm 2) with B bits per element: the unit vector rotated
// and quantised to B - 1 bits by Lloyd-Max, what is left as a one-bit sketch (sketch.hpp) with a second rotation.
//   R x ~ |x| / sqrt(d) l[code] + R2^T (h sign_scale(d) z),  z = sign(R2 (R x - |x| / sqrt(d) l[code]))
// The basis is R. The estimate of <q, x> is unbiased over R2, with variance (pi / 2 - 1) D_mse(B - 1) |q|^2 |x|^2 / d
// as R2 is orthogonal; the paper's Gaussian projection has pi / 2.
//
// Levels are the Gaussian Lloyd-Max levels as integers times a step, so that products are integer products; the
// residual is taken against them, which leaves the estimate unbiased. Lengths are stored as root mean squares, which
// cannot overflow f16.
//
// Page: f16 s[128], |x| / sqrt(d) of every token; f16 h[128], the same of the residual; codes of B - 1 bits; signs, 1
// for z >= 0. Both are packed matrices (kv/families/packed/layout.hpp), K 128 lanes (tokens) x d, V d lanes x 128
// tokens. Everything of a sink is 0 or multiplied by 0. docs/formats/turbo.md
#pragma once

#include "kv/families/sketch/sketch.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// Level of code i: step (values[i] - kLargest / 2).
template <int bits>
struct TurboLevels;

template <>
struct TurboLevels<2> {  // mean squared error 0.117482, as with real levels
  static constexpr int kLargest = 20;
  static constexpr std::uint8_t kValues[] = {0, 7, 13, 20};
  static constexpr float kStep = 0.151042f;
};
template <>
struct TurboLevels<3> {  // 0.034572; real levels 0.034548
  static constexpr int kLargest = 59;
  static constexpr std::uint8_t kValues[] = {0, 11, 19, 26, 33, 40, 48, 59};
  static constexpr float kStep = 0.0728016f;
};

template <int B>
struct Turbo {
  static constexpr int kBits = B - 1;
  static constexpr int kCount = 1 << kBits;
  using Levels = TurboLevels<kBits>;
  using Map = Table<kBits, Levels::kLargest <= 31 ? 31 : 63>;
  static constexpr std::size_t kHead = 2 * kPageTokens * sizeof(std::uint16_t);

  // float sign_scale, then R and R2.
  struct State {
    float scale;
    const std::byte* first;
    const std::byte* second;

    State(const void* state, int d) : scale(*static_cast<const float*>(state)) {
      first = static_cast<const std::byte*>(state) + sizeof(float);
      second = first + kernel::rotation_bytes(d);
    }
  };
  static std::size_t state_bytes(int d) { return sizeof(float) + 2 * kernel::rotation_bytes(d); }
  static void init_state(void* state, int d, Side side, int layer, int kv_head) {
    auto* p = static_cast<std::byte*>(state);
    const float scale = sign_scale(d);
    __builtin_memcpy(p, &scale, sizeof scale);
    kernel::make_rotation(p + sizeof scale, d, strip_seed(side, layer, kv_head, 0));
    kernel::make_rotation(p + sizeof scale + kernel::rotation_bytes(d), d, strip_seed(side, layer, kv_head, 1));
  }

  static std::size_t bytes(int d, const CodecParams&) { return kHead + packed_bytes(B, kPageTokens, d); }

  struct Page {
    const std::uint16_t* size;
    const std::uint16_t* residual;
    const std::byte* codes;
    const std::byte* signs;

    Page(const std::byte* p, int d)
        : size(reinterpret_cast<const std::uint16_t*>(p)),
          residual(size + kPageTokens),
          codes(p + kHead),
          signs(codes + packed_bytes(kBits, kPageTokens, d)) {}
  };

  static void to_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    kRotate.forward(State(head.state, head.d).first, head.d, rows, x, stride);
  }
  static void from_basis(const Head& head, int rows, float* x, std::ptrdiff_t stride) {
    kRotate.inverse(State(head.state, head.d).first, head.d, rows, x, stride);
  }

  // Replaces every y of the strip by y - size * level(y / size).
  KVASIR_INLINE void quantize(float* strip, int d, F32 size, std::uint8_t* codes) {
    constexpr float kTiny = 5e-8f;  // below the least f16
    const F32 inverse = zero_if_less(size, set1(kTiny), div(set1(1.0f), max(size, set1(kTiny))));
    const F32 step = mul(size, set1(-0.5f * Levels::kStep));
    for (int c = 0; c < d; ++c) {
      const F32 y = load(strip + c * kLanes);
      const F32 unit = mul(y, inverse);
      F32 code = zero();
      F32 level = set1(-Levels::kLargest);  // doubled, so that it is an integer
      KVASIR_UNROLL(8)
      for (int i = 0; i + 1 < kCount; ++i) {
        const int both = Levels::kValues[i] + Levels::kValues[i + 1] - Levels::kLargest;
        const F32 above = at_least(unit, set1(0.5f * Levels::kStep * static_cast<float>(both)));
        code = add(code, above);
        level = fma(above, set1(static_cast<float>(2 * (Levels::kValues[i + 1] - Levels::kValues[i]))), level);
      }
      store_low_bytes(codes + c * kPageTokens, to_i32(code));
      store(strip + c * kLanes, fma(step, level, y));
    }
  }

  template <Side side>
  static void seal(const Head& head, const std::byte* raw, int skip, float* scratch, std::byte* page) {
    const int d = head.d;
    const State s(head.state, d);
    float* strip = scratch;
    float* rows = strip + strip_floats(d);
    auto* codes = reinterpret_cast<std::uint8_t*>(rows + strip_floats(d));
    std::uint8_t* signs = codes + static_cast<std::ptrdiff_t>(d) * kPageTokens;
    auto* sizes = reinterpret_cast<std::uint16_t*>(page);
    for (int t = 0; t < kPageTokens; t += kLanes) {
      load_strip<side>(raw, d, t, skip, rows, strip);
      const F32 size = store_rounded(sizes + t, column_rms(strip, d));
      kRotate.forward_columns(s.first, d, kLanes, strip, kLanes);
      quantize(strip, d, size, codes + t);
      store_rounded(sizes + kPageTokens + t, column_rms(strip, d));
      kRotate.forward_columns(s.second, d, kLanes, strip, kLanes);
      store_signs(strip, d, signs + t);
    }
    std::byte* to = page + kHead;
    pack_page<side, kBits>(codes, d, to);
    pack_page<side, 1>(signs, d, to + packed_bytes(kBits, kPageTokens, d));
  }

  KVASIR_INLINE F32 centred(F32 value) { return sub(value, set1(0.5f * Levels::kLargest)); }
  KVASIR_INLINE F32 sign(F32 bit) { return fma(bit, set1(2.0f), set1(-1.0f)); }

  static void unseal_k(const Head& head, const PageRef& ref, float* tile) {
    const int d = head.d;
    const State s(head.state, d);
    const Page page(ref.block, d);
    const Map map = Map::load(Levels::kValues);
    alignas(64) float strip[kernel::kMaxRotated * kLanes];
    for (int t = 0; t < ref.end || t % kPanel != 0; t += kLanes) {
      const F32 h = mul(load_f16(page.residual + t), set1(s.scale));
      panel_floats<1>(page.signs + packed_bytes(1, t, d), 0, d, Codes{},
                      [&](int c, F32 bit) { store(strip + c * kLanes, mul(h, sign(bit))); });
      kRotate.inverse_columns(s.second, d, kLanes, strip, kLanes);
      const F32 size = mul(load_f16(page.size + t), set1(Levels::kStep));
      float* to = tile + static_cast<std::ptrdiff_t>(t / kPanel) * d * kPanel + t % kPanel;
      panel_floats<kBits>(page.codes + packed_bytes(kBits, t, d), 0, d, map, [&](int c, F32 value) {
        store(to + c * kPanel, fma(size, centred(value), load(strip + c * kLanes)));
      });
    }
  }

  static void unseal_v(const Head& head, const PageRef& ref, float* tile) {
    const int d = head.d;
    const State s(head.state, d);
    const Page page(ref.block, d);
    const Map map = Map::load(Levels::kValues);
    alignas(64) float strip[kernel::kMaxRotated * kLanes];  // 16 rows of d
    alignas(64) float size[kLanes];
    alignas(64) float h[kLanes];
    for (int t = 0; t < ref.end; t += kLanes) {
      store(size, mul(load_f16(page.size + t), set1(Levels::kStep)));
      store(h, mul(load_f16(page.residual + t), set1(s.scale)));
      for (int c = 0; c < d; c += kLanes)
        panel_floats<1>(page.signs + packed_bytes(1, kPageTokens, c), t, t + kLanes, Codes{},
                        [&](int i, F32 bit) { store(strip + (i - t) * d + c, mul(set1(h[i - t]), sign(bit))); });
      kRotate.inverse(s.second, d, kLanes, strip, d);
      for (int c = 0; c < d; c += kLanes) {
        float* to = tile + static_cast<std::ptrdiff_t>(c / kPanel) * kPageTokens * kPanel + c % kPanel;
        panel_floats<kBits>(page.codes + packed_bytes(kBits, kPageTokens, c), t, t + kLanes, map, [&](int i, F32 v) {
          store(to + i * kPanel, fma(set1(size[i - t]), centred(v), load(strip + (i - t) * d + c)));
        });
      }
    }
  }

  // Rows for the codes and for the signs, and what their integer sums have to be multiplied with.
  struct Rows {
    ByteRows codes;
    ByteRows signs;
  };

  template <int G>
  static void page_dots(const PageRef& ref, int d, float scale, const Map& map, const Rows& q, float* scores,
                        int stride) {
    const Page page(ref.block, d);
    for (int t = ref.begin / kLanes * kLanes; t < ref.end; t += kLanes) {
      const std::byte* codes = page.codes + packed_bytes(kBits, t, d);
      const std::byte* signs = page.signs + packed_bytes(1, t, d);
      F32 a[G];
      F32 b[G];
      centred_dots<Levels::kLargest, kBits>(codes, 0, d, map, q.codes, in_next(ref, codes), a);
      centred_dots<1, 1>(signs, 0, d, Codes{}, q.signs, in_next(ref, signs), b);
      const F32 size = mul(load_f16(page.size + t), set1(0.5f * Levels::kStep));
      const F32 h = mul(load_f16(page.residual + t), set1(scale));
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        const F32 mse = mul(size, mul(a[g], set1(q.codes.scale[g])));
        store(scores + g * stride + t, fma(h, mul(b[g], set1(q.signs.scale[g])), mse));
      }
    }
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    const int d = head.d;
    const State s(head.state, d);
    const Map map = Map::load(Levels::kValues);
    Rows rows;
    alignas(64) float turned[kernel::kMaxRotated];
    for (int r = 0, n = 0; r < g; r += n) {
      n = rows_from(r, g);
      for (int i = 0; i < n; ++i) {
        const float* x = q + static_cast<std::ptrdiff_t>(r + i) * d;
        rows.codes.set(i, x, d);
        __builtin_memcpy(turned, x, static_cast<std::size_t>(d) * sizeof(float));
        kRotate.forward(s.second, d, 1, turned, d);
        rows.signs.set(i, turned, d);
      }
      float* to = scores + static_cast<std::ptrdiff_t>(r) * stride;
      with_rows(n, [&]<int G>() {
        for (int i = 0; i < count; ++i) page_dots<G>(pages[i], d, s.scale, map, rows, to + i * kPageTokens, stride);
      });
    }
  }

  // rows = weights times the tokens' lengths; 16-token blocks outside the page's range are not looked at.
  static void weigh(const Page& page, const PageRef& ref, const float* weights, int stride, int n, Rows* rows) {
    alignas(64) float a[kPageTokens] = {};
    alignas(64) float b[kPageTokens] = {};
    for (int i = 0; i < n; ++i) {
      for (int t = ref.begin / kLanes * kLanes; t < ref.end; t += kLanes) {
        const F32 w = load(weights + i * stride + t);
        store(a + t, mul(w, load_f16(page.size + t)));
        store(b + t, mul(w, load_f16(page.residual + t)));
      }
      rows->codes.set(i, a, kPageTokens);
      rows->signs.set(i, b, kPageTokens);
    }
  }

  template <int G>
  static void page_sums(const PageRef& ref, const Head& head, const State& s, const Map& map, const Rows& w, float* out,
                        int pitch) {
    const int d = head.d;
    const Page page(ref.block, d);
    const int begin = ref.begin / kLanes * kLanes;
    const int end = (ref.end + kLanes - 1) / kLanes * kLanes;
    alignas(64) float turned[G * kernel::kMaxRotated];
    for (int c = 0; c < d; c += kLanes) {
      const std::byte* codes = page.codes + packed_bytes(kBits, kPageTokens, c);
      const std::byte* signs = page.signs + packed_bytes(1, kPageTokens, c);
      F32 a[G];
      F32 b[G];
      centred_dots<Levels::kLargest, kBits>(codes, begin, end, map, w.codes, in_next(ref, codes), a);
      centred_dots<1, 1>(signs, begin, end, Codes{}, w.signs, in_next(ref, signs), b);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        store(out + g * pitch + c, mul(a[g], set1(w.codes.scale[g] * (0.5f * Levels::kStep))));
        store(turned + g * d + c, mul(b[g], set1(w.signs.scale[g] * s.scale)));
      }
    }
    kRotate.inverse(s.second, d, G, turned, d);
    for (int g = 0; g < G; ++g)
      for (int c = 0; c < d; c += kLanes)
        store(out + g * pitch + c, add(load(out + g * pitch + c), load(turned + g * d + c)));
  }

  static void accumulate(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                         float* out, int pitch) {
    const State s(head.state, head.d);
    const Map map = Map::load(Levels::kValues);
    Rows rows;
    for (int i = 0; i < count; ++i)
      for (int r = 0, n = 0; r < g; r += n) {
        n = rows_from(r, g);
        weigh(Page(pages[i].block, head.d), pages[i],
              weights + static_cast<std::ptrdiff_t>(r) * stride + i * kPageTokens, stride, n, &rows);
        float* to = out + (static_cast<std::ptrdiff_t>(i) * g + r) * pitch;
        with_rows(n, [&]<int G>() { page_sums<G>(pages[i], head, s, map, rows, to, pitch); });
      }
  }

  static constexpr Codec codec(const char* summary) {
    return {.summary = summary,
            .raw_type = RawType::kF16,
            .lossless = false,
            .refuse = refuse_rotated,
            .state_bytes = state_bytes,
            .init_state = init_state,
            .k = {bytes, seal<Side::kKeys>, unseal_k, to_basis, from_basis},
            .v = {bytes, seal<Side::kValues>, unseal_v, to_basis, from_basis},
            .dots = dots,
            .accumulate = accumulate};
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
