// Rotated Lloyd-Max codecs (specs: EDEN, DRIVE and HIGGS; TurboQuant_mse with a least-squares scale).
//
// A row x of a head is turned by a seeded random rotation R, the page's channel means m are taken off, and what is left
// is g * levels[code]: R x ~ m + g l, with l from the Lloyd-Max table of the Gaussian, g = <y, l> / <l, l> (least
// squares), or |y|^2 / <y, l> with `unbiased`, for which the mean of <q, x^> over rotations is <q, x>. Means belong to
// pages rather than to sequences, so that a page means the same wherever it is used, and so that they follow the slow
// drift that RoPE gives keys over long contexts.
//
// Page, d channels, B bits:
//   f16  g[128]            scale of every token, 0 for rows that are sinks
//   i8   m[d]              channel means in the basis, kv/codecs/page_mean.hpp
//   u8   codes             packed matrix: K 128 lanes (tokens) x d, V d lanes (channels) x 128; kv/packed_layout.hpp
// 8 bits are spread evenly from -127 to 127: per row that is as good as a Lloyd-Max table (44 dB at d = 128) and
// multiplies without one.
#pragma once

#include "kernel/rotate.hpp"
#include "kv/codec.hpp"
#include "kv/codecs/page_mean.hpp"
#include "kv/int8_row.hpp"
#include "kv/integer_levels.hpp"
#include "kv/packed.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr std::uint64_t kRotationSeed = 0x6b7661736972;

// How codes become numbers: (value - offset()), value an integer.
template <int B>
struct LevelMap {
  using Map = Table<B, integer_levels_largest(B)>;
  KVASIR_INLINE Map map() { return Map::load(integer_levels(B).values); }
  KVASIR_INLINE float offset() { return integer_levels(B).offset; }
};
template <>
struct LevelMap<8> {
  using Map = Codes;  // signed
  KVASIR_INLINE Map map() { return {}; }
  KVASIR_INLINE float offset() { return 0; }
};

template <int B>
struct RotatedPage {
  const std::uint16_t* scales;
  const std::int8_t* means;
  const std::byte* codes;

  static constexpr std::size_t bytes(int d) {
    return 2 * kPageTokens + static_cast<std::size_t>(d) + packed_bytes(B, kPageTokens, d);
  }
  KVASIR_INLINE RotatedPage at(const std::byte* p, int d) {
    return {reinterpret_cast<const std::uint16_t*>(p), reinterpret_cast<const std::int8_t*>(p + 2 * kPageTokens),
            p + 2 * kPageTokens + d};
  }
};

// Calls f.template operator()<G>() with G = n, 1 <= n <= kPackedRows.
template <class F>
KVASIR_INLINE void with_rows(int n, F&& f) {
  switch (n) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
  }
  if constexpr (kPackedRows == 8) {
    switch (n) {
      case 5:
        return f.template operator()<5>();
      case 6:
        return f.template operator()<6>();
      case 7:
        return f.template operator()<7>();
      case 8:
        return f.template operator()<8>();
    }
  }
}

template <int B>
struct RotatedProducts {
  using Levels = LevelMap<B>;
  using Page = RotatedPage<B>;
  static constexpr int kMaxDim = kernel::kMaxRotated;

  // scores[r][t] = g_t * scale_r * (sum of x (value - offset)) + <q_r, m>
  template <int G>
  static void page_dots(const PageRef& page, int d, const std::int8_t* x, const Int8Row* rows, const float* base,
                        float* scores, int stride) {
    const Page p = Page::at(page.block, d);
    const auto map = Levels::map();
    const std::byte* next = Page::at(page.next ? page.next : page.block, d).codes;
    const std::ptrdiff_t panel_bytes = static_cast<std::ptrdiff_t>(packed_panel_bytes(B, d));
    for (int t = 0; t < kPageTokens; t += kLanes) {
      I32 acc[G];
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) acc[g] = dots_start<B, typename Levels::Map>(rows[g].sum);
      panel_dots<B>(p.codes + t / kLanes * panel_bytes, 0, d, map, x, d, next + t / kLanes * panel_bytes, acc);
      const F32 scale = load_f16(p.scales + t);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        const F32 product = sub(to_f32(acc[g]), set1(Levels::offset() * static_cast<float>(rows[g].sum)));
        store(scores + g * stride + t, fma(scale, mul(product, set1(rows[g].scale)), set1(base[g])));
      }
    }
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    const int d = head.d;
    alignas(64) std::int8_t x[kPackedRows * kMaxDim];
    Int8Row rows[kPackedRows];
    float base[kPackedRows];
    for (int r = 0; r < g; r += kPackedRows) {
      const int n = g - r < kPackedRows ? g - r : kPackedRows;
      const float* qs = q + static_cast<std::ptrdiff_t>(r) * d;
      for (int i = 0; i < n; ++i) rows[i] = quantize_row(qs + i * d, d, x + i * d);
      for (int p = 0; p < count; ++p) {
        const std::int8_t* means = Page::at(pages[p].block, d).means;
        for (int i = 0; i < n; ++i) {
          F32 sum = zero();
          for (int c = 0; c < d; c += kLanes) sum = fma(load(qs + i * d + c), decode_mean(means + c), sum);
          base[i] = reduce_add(sum);
        }
        float* s = scores + static_cast<std::ptrdiff_t>(r) * stride + p * kPageTokens;
        with_rows(n, [&]<int G>() { page_dots<G>(pages[p], d, x, rows, base, s, stride); });
      }
    }
  }

  // out[r][c] = scale_r * (sum of x (value - offset)) + sum of weights * m_c, x = weights * g
  template <int G>
  static void page_sums(const PageRef& page, int d, const std::int8_t* x, const Int8Row* rows, const float* mass,
                        float* out, int pitch) {
    const Page p = Page::at(page.block, d);
    const auto map = Levels::map();
    const std::byte* next = Page::at(page.next ? page.next : page.block, d).codes;
    const std::ptrdiff_t panel_bytes = static_cast<std::ptrdiff_t>(packed_panel_bytes(B, kPageTokens));
    for (int c = 0; c < d; c += kLanes) {
      I32 acc[G];
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) acc[g] = dots_start<B, typename Levels::Map>(rows[g].sum);
      panel_dots<B>(p.codes + c / kLanes * panel_bytes, 0, kPageTokens, map, x, kPageTokens,
                    next + c / kLanes * panel_bytes, acc);
      const F32 mean = decode_mean(p.means + c);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        const F32 product = sub(to_f32(acc[g]), set1(Levels::offset() * static_cast<float>(rows[g].sum)));
        store(out + g * pitch + c, fma(product, set1(rows[g].scale), mul(set1(mass[g]), mean)));
      }
    }
  }

  static void accumulate(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                         float* out, int pitch) {
    alignas(64) std::int8_t x[kPackedRows * kPageTokens];
    alignas(64) float scaled[kPageTokens];
    Int8Row rows[kPackedRows];
    float mass[kPackedRows];
    for (int p = 0; p < count; ++p) {
      const Page page = Page::at(pages[p].block, head.d);
      for (int r = 0; r < g; r += kPackedRows) {
        const int n = g - r < kPackedRows ? g - r : kPackedRows;
        for (int i = 0; i < n; ++i) {
          const float* w = weights + static_cast<std::ptrdiff_t>(r + i) * stride + p * kPageTokens;
          F32 sum = zero();
          for (int t = 0; t < kPageTokens; t += kLanes) {
            const F32 v = load(w + t);
            sum = add(sum, v);
            store(scaled + t, mul(v, load_f16(page.scales + t)));
          }
          mass[i] = reduce_add(sum);
          rows[i] = quantize_row(scaled, kPageTokens, x + i * kPageTokens);
        }
        float* o = out + (static_cast<std::ptrdiff_t>(p) * g + r) * pitch;
        with_rows(n, [&]<int G>() { page_sums<G>(pages[p], head.d, x, rows, mass, o, pitch); });
      }
    }
  }

  static void unseal_k(const Head& head, const PageRef& page, float* tile) {
    const int d = head.d;
    const Page p = Page::at(page.block, d);
    const auto map = Levels::map();
    const F32 offset = set1(Levels::offset());
    alignas(64) float means[kMaxDim];
    for (int c = 0; c < d; c += kLanes) store(means + c, decode_mean(p.means + c));
    for (int t = 0; t < page.end; t += kLanes) {
      const F32 scale = load_f16(p.scales + t);
      float* to = tile + static_cast<std::ptrdiff_t>(t / kPanel) * d * kPanel + t % kPanel;
      panel_floats<B>(
          p.codes + static_cast<std::size_t>(t / kLanes) * packed_panel_bytes(B, d), 0, d,
          map, [&](int c, F32 value) __attribute__((always_inline)) {
            store(to + c * kPanel, fma(scale, sub(value, offset), set1(means[c])));
          });
    }
  }

  static void unseal_v(const Head& head, const PageRef& page, float* tile) {
    const int d = head.d;
    const Page p = Page::at(page.block, d);
    const auto map = Levels::map();
    const F32 offset = set1(Levels::offset());
    alignas(64) float scales[kPageTokens];
    for (int t = 0; t < kPageTokens; t += kLanes) store(scales + t, load_f16(p.scales + t));
    for (int c = 0; c < d; c += kLanes) {
      const F32 mean = decode_mean(p.means + c);
      float* to = tile + static_cast<std::ptrdiff_t>(c / kPanel) * kPageTokens * kPanel + c % kPanel;
      panel_floats<B>(
          p.codes + static_cast<std::size_t>(c / kLanes) * packed_panel_bytes(B, kPageTokens), 0,
          (page.end + 3) / 4 * 4, map, [&](int t, F32 value) __attribute__((always_inline)) {
            store(to + t * kPanel, fma(set1(scales[t]), sub(value, offset), mean));
          });
    }
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
