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
//   i8   m[d]              channel means in the basis, kv/families/rotated/page_mean.hpp
//   u8   codes             packed matrix: K 128 lanes (tokens) x d, V d lanes (channels) x 128; kv/families/packed/layout.hpp
// 8 bits are spread evenly from -127 to 127: per row that is as good as a Lloyd-Max table (44 dB at d = 128) and
// multiplies without one.
#pragma once

#include "kernel/rotate.hpp"
#include "kernel/tiles.hpp"
#include "kv/codec.hpp"
#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/int8_row.hpp"
#include "kv/families/rotated/integer_levels.hpp"
#include "kv/families/rotated/page_mean.hpp"
#include "kv/families/row_blocks.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

inline constexpr std::uint64_t kRotationSeed = 0x6b7661736972;

// How codes become numbers: (value - offset), value an integer.
template <int B>
struct LevelMap {
  using Map = Table<B, integer_levels_largest(B)>;
  Map map;
  float offset;
  KVASIR_INLINE LevelMap load() {
    const IntegerLevels& levels = integer_levels(B);
    return {Map::load(levels.values), levels.offset};
  }
};
template <>
struct LevelMap<8> {
  using Map = Codes;  // signed
  Map map;
  static constexpr float offset = 0;
  KVASIR_INLINE LevelMap load() { return {}; }
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

template <int B>
struct RotatedTiles;

template <int B>
struct RotatedProducts {
  using Levels = LevelMap<B>;
  using Page = RotatedPage<B>;
  template <int G>
  using Left = LeftRows<B, typename Levels::Map, G>;
  template <int G>
  using Kept = LeftRows<B, typename Levels::Map, G, kKeptForm<B, typename Levels::Map>>;
  static constexpr int kMaxDim = kernel::kMaxRotated;

  // Runs of 16 tokens around those that are asked for.
  KVASIR_INLINE int first_of(const PageRef& page) { return page.begin / kLanes * kLanes; }
  KVASIR_INLINE int last_of(const PageRef& page) { return (page.end + kLanes - 1) / kLanes * kLanes; }

  KVASIR_INLINE const std::byte* next_of(const PageRef& page) { return page.next ? page.next : page.block; }
  // What is asked of the block that is fetched while page p is read: behind the last keys come the values of the same
  // pages. Behind the last values it is a guess.
  KVASIR_INLINE const PageRef& fetched(const PageRef* pages, int p, int count) {
    return pages[(p + kFetchAhead) % count];
  }
  KVASIR_INLINE void prefetch_header(const std::byte* page, const PageRef& asked, int d) {
    for (int i = asked.begin / 32 * 64; i < 2 * asked.end; i += 64) fetch_ahead(page + i);
    for (int i = 0; i < d; i += 64) fetch_ahead(page + 2 * kPageTokens + i);
  }
  KVASIR_INLINE void decode_means(const Page& page, int d, float* to) {
    for (int c = 0; c < d; c += kLanes) store(to + c, decode_mean(page.means + c));
  }

  // What turns sums of integers into scores:
  // scores[r][t] = g_t * scale_r * (sum of x (value - offset)) + <q_r, m>
  template <int G>
  struct ScoreEnd {
    alignas(64) float base[kLanes];
    float scale[G];
    float shift[G];
    KVASIR_INLINE ScoreEnd of(const Page& p, int d, const Levels& levels, const float* q, const Int8Row* left) {
      ScoreEnd e;
      F32 sum[G];
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) sum[g] = zero();
      KVASIR_UNROLL(1)
      for (int c = 0; c < d; c += kLanes) {
        const F32 mean = decode_mean(p.means + c);
        KVASIR_UNROLL(8)
        for (int g = 0; g < G; ++g) sum[g] = fma(load(q + g * d + c), mean, sum[g]);
      }
      store(e.base, reduce_adds(sum));
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        e.scale[g] = left[g].scale;
        e.shift[g] = -left[g].scale * (levels.offset * static_cast<float>(left[g].sum));
      }
      return e;
    }
    KVASIR_INLINE F32 score(const ScoreEnd& e, int g, F32 scales, F32 sum) {
      return fma(scales, fma(sum, set1(e.scale[g]), set1(e.shift[g])), set1(e.base[g]));
    }
  };

  template <int G>
  static void page_dots(const PageRef& page, const PageRef& after, int d, const Levels& levels, const float* q,
                        const Kept<G>& left, const Int8Row* rows, float* scores, int stride) {
    const Page p = Page::at(page.block, d);
    const std::ptrdiff_t panel_bytes = static_cast<std::ptrdiff_t>(packed_panel_bytes(B, d));
    const std::byte* next =
        Page::at(next_of(page), d).codes + (first_of(after) - first_of(page)) / kLanes * panel_bytes;
    prefetch_header(next_of(page), after, d);
    const auto end = ScoreEnd<G>::of(p, d, levels, q, rows);
    for (int t = first_of(page); t < page.end; t += kLanes) {
      I32 acc[G];
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) acc[g] = dots_start<B, typename Levels::Map>(rows[g].sum);
      const std::ptrdiff_t at = t / kLanes * panel_bytes;
      panel_dots<B>(p.codes + at, 0, d, levels.map, left, next + at, acc);
      const F32 scale = load_f16(p.scales + t);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) store(scores + g * stride + t, ScoreEnd<G>::score(end, g, scale, to_f32(acc[g])));
    }
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    const int d = head.d;
#if defined(KVASIR_MAY_HAVE_TILES)
    if (const kernel::TileKernels* tiles = RotatedTiles<B>::wanted(g))
      return RotatedTiles<B>::dots(*tiles, d, pages, count, q, g, scores, stride);
#endif
    const Levels levels = Levels::load();
    alignas(64) std::int8_t x[kRowBlock * kMaxDim];
    Int8Row rows[kRowBlock];
    for (int r = 0, n = 0; r < g; r += n) {
      n = rows_from(r, g);
      const float* qs = q + static_cast<std::ptrdiff_t>(r) * d;
      for (int i = 0; i < n; ++i) rows[i] = quantize_row(qs + i * d, d, x + i * d);
      with_rows(n, [&]<int G>() {
        const auto left = Kept<G>::of(x, d, d);
        for (int p = 0; p < count; ++p)
          page_dots<G>(pages[p], fetched(pages, p, count), d, levels, qs, left, rows,
                       scores + static_cast<std::ptrdiff_t>(r) * stride + p * kPageTokens, stride);
      });
    }
  }

  // out[r][c] = scale_r * (sum of x (value - offset)) + sum of weights * m_c, x = weights * g
  struct SumEnd {
    F32 scale;
    F32 shift;
    F32 mass;
    KVASIR_INLINE SumEnd of(const Levels& levels, const Int8Row& left, float mass) {
      return {set1(left.scale), set1(-left.scale * (levels.offset * static_cast<float>(left.sum))), set1(mass)};
    }
    KVASIR_INLINE F32 value(const SumEnd& e, F32 sum, F32 mean) {
      return fma(e.mass, mean, fma(sum, e.scale, e.shift));
    }
  };

  // W: 128, or 64 where all tokens that are asked for lie in one half of the page. Weights of others are 0, so both
  // give the same bits.
  template <int G, int W>
  static void page_sums(const PageRef& page, const PageRef& after, int d, const Levels& levels, const float* weights,
                        int stride, float* out, int pitch) {
    const Page p = Page::at(page.block, d);
    const int half = page.begin / W * W;
    const std::ptrdiff_t unit_bytes = packed_unit_bytes(B);
    const std::byte* codes = p.codes + half / kPackedUnit * unit_bytes;
    const std::byte* next =
        Page::at(next_of(page), d).codes + (half + first_of(after) - first_of(page)) / kPackedUnit * unit_bytes;
    prefetch_header(next_of(page), after, d);
    alignas(64) std::int8_t x[G * W];
    Int8Row rows[G];
    float mass[G];
    quantize_products<G, W>(weights + half, stride, p.scales + half, first_of(page) - half, last_of(page) - half, x,
                            rows, mass);
    SumEnd end[G];
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) end[g] = SumEnd::of(levels, rows[g], mass[g]);
    const auto left = Left<G>::of(x, W, W);
    const std::ptrdiff_t panel_bytes = static_cast<std::ptrdiff_t>(packed_panel_bytes(B, kPageTokens));
    for (int c = 0; c < d; c += kLanes) {
      I32 acc[G];
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) acc[g] = dots_start<B, typename Levels::Map>(rows[g].sum);
      const std::ptrdiff_t at = c / kLanes * panel_bytes;
      panel_dots<B>(codes + at, first_of(page) - half, last_of(page) - half, levels.map, left, next + at, acc);
      const F32 mean = decode_mean(p.means + c);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) store(out + g * pitch + c, SumEnd::value(end[g], to_f32(acc[g]), mean));
    }
  }

  static void accumulate(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                         float* out, int pitch) {
#if defined(KVASIR_MAY_HAVE_TILES)
    if (const kernel::TileKernels* tiles = RotatedTiles<B>::wanted(g))
      return RotatedTiles<B>::accumulate(*tiles, head.d, pages, count, weights, stride, g, out, pitch);
#endif
    const Levels levels = Levels::load();
    for (int p = 0; p < count; ++p) {
      for (int r = 0, n = 0; r < g; r += n) {
        n = rows_from(r, g);
        const float* w = weights + static_cast<std::ptrdiff_t>(r) * stride + p * kPageTokens;
        float* o = out + (static_cast<std::ptrdiff_t>(p) * g + r) * pitch;
        const PageRef& after = fetched(pages, p, count);
        with_rows(n, [&]<int G>() {
          if constexpr (!kFewShapes)
            if (pages[p].begin / (kPageTokens / 2) == (pages[p].end - 1) / (kPageTokens / 2))
              return page_sums<G, kPageTokens / 2>(pages[p], after, head.d, levels, w, stride, o, pitch);
          page_sums<G, kPageTokens>(pages[p], after, head.d, levels, w, stride, o, pitch);
        });
      }
    }
  }

  // f(t, to, values, c): 16 tokens of channel c belong to tile[to].
  template <class F>
  KVASIR_INLINE void each_key(const Page& p, int d, int tokens, const Levels& levels, F&& f) {
    for (int t = 0; t < tokens; t += kLanes) {
      const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(t / kPanel) * d * kPanel + t % kPanel;
      const F32 scale = load_f16(p.scales + t);
      panel_floats<B>(
          p.codes + static_cast<std::size_t>(t / kLanes) * packed_panel_bytes(B, d), 0, d,
          levels.map, [&](int c, F32 value) __attribute__((always_inline)) { f(to + c * kPanel, c, scale, value); });
    }
  }
  template <class F>
  KVASIR_INLINE void each_value(const Page& p, int d, int tokens, const Levels& levels, F&& f) {
    for (int c = 0; c < d; c += kLanes) {
      const F32 mean = decode_mean(p.means + c);
      const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(c / kPanel) * kPageTokens * kPanel + c % kPanel;
      panel_floats<B>(
          p.codes + static_cast<std::size_t>(c / kLanes) * packed_panel_bytes(B, kPageTokens), 0, (tokens + 3) / 4 * 4,
          levels.map, [&](int t, F32 value) __attribute__((always_inline)) { f(to + t * kPanel, t, mean, value); });
    }
  }

  static void unseal_k(const Head& head, const PageRef& page, float* tile) {
    const Page p = Page::at(page.block, head.d);
    const Levels levels = Levels::load();
    const F32 offset = set1(levels.offset);
    alignas(64) float means[kMaxDim];
    decode_means(p, head.d, means);
    each_key(
        p, head.d, page.end,
        levels, [&](std::ptrdiff_t to, int c, F32 scale, F32 value) __attribute__((always_inline)) {
          store(tile + to, fma(scale, sub(value, offset), set1(means[c])));
        });
  }

  static void unseal_v(const Head& head, const PageRef& page, float* tile) {
    const Page p = Page::at(page.block, head.d);
    const Levels levels = Levels::load();
    const F32 offset = set1(levels.offset);
    alignas(64) float scales[kPageTokens];
    for (int t = 0; t < kPageTokens; t += kLanes) store(scales + t, load_f16(p.scales + t));
    each_value(
        p, head.d, page.end, levels, [&](std::ptrdiff_t to, int t, F32 mean, F32 value) __attribute__((always_inline)) {
          store(tile + to, fma(set1(scales[t]), sub(value, offset), mean));
        });
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
