// Keys as differences to the previous key, for codecs of 3 and 4 bits: delta3, delta4.
//
// A page is cut into segments of S = 16 or 32 tokens (parameter group, default 32). A segment has a base, the first
// token's key at 4 bits per channel; every token, the first included, stores at B bits its difference to the
// prediction, which is the base for the first token and the previous token's *reconstruction* for the others. The loop
// is closed over what is stored, rounded scales included, so an error is the one of a single difference and does not
// grow along the segment. The first token is left with 4 + B bits.
//
// Scores need no reconstruction: <q, k_t> = <q, base> + sum over i <= t of <q, difference_i>, products with packed
// codes and one addition per token.
//
// Differences have one scale per token (half precision) and stand for s * (table[code] - kMax / 2): the levels of the
// Lloyd-Max quantiser of a Gaussian, in integers. A base is s * (code - 7.5). With these levels and a scale of least
// squares 3 (4) bits are 0.8 (1.7) dB better on real keys than with evenly spaced ones.
//
// Page of d channels, N = 128 / S segments:
//   codes     packed matrix of B bits (kv/families/packed/layout.hpp), lanes = tokens, depth = channels: 16 B d bytes
//   scales    f16[128], of the differences; 0 in rows left out (sinks), whose codes are 0 too
//   base scales  f16[N]
//   bases     N rows of d / 2 bytes: channel i in the low half of byte i, channel i + d / 2 in the high half
// Bits per element: B + 4 / S + 16 / d + 16 / (S d), for d = 128, S = 32: B + 0.254.
//
// What it is worth: 2.9 dB of prediction on real keys, which subtracting the channels' means gives as well, with random
// access. It is here to be compared with.
#pragma once

#include "kv/codec.hpp"
#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/int8_row.hpp"
#include "kv/families/row_blocks.hpp"
#include "simd/half.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

// Levels of the differences: integers kMax - 2 u .. symmetric around kMax / 2, rounded from the centroids
// .245 .756 1.344 2.152 and .128 .388 .657 .942 1.256 1.618 2.069 2.733 (Max 1960, table 1) scaled to kMax / 2.
template <int B>
struct DeltaLevels;
template <>
struct DeltaLevels<3> {
  static constexpr int kMax = 31;
  static constexpr std::uint8_t kTable[8] = {0, 6, 10, 14, 17, 21, 25, 31};
};
template <>
struct DeltaLevels<4> {
  static constexpr int kMax = 63;
  static constexpr std::uint8_t kTable[16] = {0, 8, 13, 17, 21, 24, 27, 30, 33, 36, 39, 42, 46, 50, 55, 63};
};

constexpr int kDeltaMaxHead = 1024;  // rows of queries lie on the stack

template <int B>
struct DeltaPage {
  int d;
  int segment;

  explicit DeltaPage(const Head& head) : d(head.d), segment(head.params.group) {}
  DeltaPage(int d_in, int segment_in) : d(d_in), segment(segment_in) {}

  int segments() const { return kPageTokens / segment; }
  std::size_t code_bytes() const { return packed_bytes(B, kPageTokens, d); }
  std::size_t scales_at() const { return code_bytes(); }
  std::size_t base_scales_at() const { return scales_at() + kPageTokens * sizeof(std::uint16_t); }
  std::size_t bases_at() const {
    return base_scales_at() + static_cast<std::size_t>(segments()) * sizeof(std::uint16_t);
  }
  std::size_t base_at(int s) const { return bases_at() + static_cast<std::size_t>(s * (d / 2)); }
  std::size_t bytes() const { return base_at(segments()); }

  const std::byte* panel(const std::byte* page, int i) const {
    return page + static_cast<std::size_t>(i) * packed_panel_bytes(B, d);
  }
  F32 scales(const std::byte* page, int panel_index) const {  // of the 16 tokens of a panel
    std::uint16_t s[kLanes];
    __builtin_memcpy(s, page + scales_at() + static_cast<std::size_t>(panel_index) * sizeof s, sizeof s);
    return load_f16(s);
  }
  float base_scale(const std::byte* page, int s) const {
    std::uint16_t h;
    __builtin_memcpy(&h, page + base_scales_at() + static_cast<std::size_t>(s) * sizeof h, sizeof h);
    return simd::f16_to_f32(h);
  }
  // Codes 0 .. 15 of a base, d of them.
  void base_codes(const std::byte* page, int s, std::uint8_t* codes) const {
    const auto* p = reinterpret_cast<const std::uint8_t*>(page + base_at(s));
    const int half = d / 2;
    for (int i = 0; i < half; ++i) {
      codes[i] = static_cast<std::uint8_t>(p[i] & 15);
      codes[half + i] = static_cast<std::uint8_t>(p[i] >> 4);
    }
  }
};

template <int B>
struct Delta {
  using Levels = DeltaLevels<B>;
  using Map = Table<B, Levels::kMax>;
  using Page = DeltaPage<B>;

  static const char* refuse(int d, Side, CodecParams* params) {
    if (params->unbiased) return "its scales are of least squares, it has no unbiased ones";
    if (params->group == 0) params->group = 32;
    if (params->group != 16 && params->group != 32) return "its segments have 16 or 32 tokens";
    if (d <= 0 || d % 16 != 0) return "the head size must be a multiple of 16";
    return d <= kDeltaMaxHead ? nullptr : "the head size must be at most 1024";
  }

  static std::size_t bytes(int d, const CodecParams& params) { return Page(d, params.group).bytes(); }

  // Rows of queries in 8 bits, zero behind d up to a multiple of 64.
  template <int G>
  struct Queries {
    alignas(64) std::int8_t x[G][kDeltaMaxHead];
    Int8Row row[G];

    void load(const float* q, int d) {
      for (int g = 0; g < G; ++g) {
        row[g] = quantize_row(q + g * d, d, x[g]);
        for (int i = d; i % 64 != 0; ++i) x[g][i] = 0;
      }
    }
  };

  // <q, base> for one segment.
  template <int G>
  KVASIR_INLINE void base_dots(const Page& p, const std::byte* page, int s, const Queries<G>& q, float (&out)[G]) {
    alignas(64) std::uint8_t codes[kDeltaMaxHead];
    p.base_codes(page, s, codes);
    for (int i = p.d; i % 64 != 0; ++i) codes[i] = 0;
    const float scale = p.base_scale(page, s);
    for (int g = 0; g < G; ++g) {
      I32 acc = zero_i32();
      for (int i = 0; i < p.d; i += 64) acc = dot_us(acc, load_bytes(codes + i), load_bytes(q.x[g] + i));
      out[g] = scale * (0.5f * q.row[g].scale * static_cast<float>(2 * reduce_add(acc) - 15 * q.row[g].sum));
    }
  }

  // <q, difference> of the 16 tokens of one panel.
  template <int G>
  KVASIR_INLINE void panel_scores(const Page& p, const std::byte* page, int panel, const std::byte* next,
                                  const Queries<G>& q, const Map& map, float* scores, int stride) {
    I32 acc[G];
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) acc[g] = dots_start<B, Map>(q.row[g].sum);
    panel_dots<B, Map, G>(p.panel(page, panel), 0, p.d, map, q.x[0], kDeltaMaxHead, p.panel(next, panel), acc);
    const F32 scales = p.scales(page, panel);
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) {
      const F32 sum = to_f32(sub(add(acc[g], acc[g]), set1_i32(Levels::kMax * q.row[g].sum)));
      store(scores + g * stride + panel * kLanes, scales * (set1(0.5f * q.row[g].scale) * sum));
    }
  }

  template <int G>
  static void dots_rows(const Head& head, const PageRef* pages, int count, const float* q, float* scores, int stride) {
    const Page p(head);
    const Map map = Map::load(Levels::kTable);
    Queries<G> queries;
    queries.load(q, p.d);
    for (int i = 0; i < count; ++i) {
      const std::byte* page = pages[i].block;
      const std::byte* next = pages[i].next ? pages[i].next : page;
      float* s = scores + i * kPageTokens;
      const int first = pages[i].begin / p.segment;
      const int last = (pages[i].end + p.segment - 1) / p.segment;
      for (int panel = first * p.segment / kLanes; panel < last * p.segment / kLanes; ++panel)
        panel_scores<G>(p, page, panel, next, queries, map, s, stride);
      float sum[kPageTokens / 16][G];
      for (int k = first; k < last; ++k) base_dots<G>(p, page, k, queries, sum[k]);
      // Along the segments, all of them side by side: one sum waits for the one before.
      for (int t = 0; t < p.segment; ++t)
        for (int k = first; k < last; ++k)
          for (int g = 0; g < G; ++g) {
            float& score = s[g * stride + k * p.segment + t];
            sum[k][g] += score;
            score = sum[k][g];
          }
    }
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    for_row_blocks(g, [&]<int G>(int r) {
      dots_rows<G>(head, pages, count, q + static_cast<std::ptrdiff_t>(r) * head.d,
                   scores + static_cast<std::ptrdiff_t>(r) * stride, stride);
    });
  }

  static void unseal(const Head& head, const PageRef& page, float* tile) {
    const Page p(head);
    const Map map = Map::load(Levels::kTable);
    const int segments = ((page.end + kPanel - 1) / kPanel * kPanel) / p.segment;
    const F32 middle = set1(0.5f * Levels::kMax);
    for (int s = 0; s < segments; ++s) {
      const int first = s * p.segment;
      float* at = tile + static_cast<std::ptrdiff_t>(first / kPanel) * p.d * kPanel + first % kPanel;
      for (int t = 0; t < p.segment; t += kLanes) {
        const int panel = (first + t) / kLanes;
        const F32 scales = p.scales(page.block, panel);
        panel_floats<B>(
            p.panel(page.block, panel), 0, p.d, map, [&](int c, F32 row) __attribute__((always_inline)) {
              store(at + static_cast<std::ptrdiff_t>(c) * kPanel + t, scales * (row - middle));
            });
      }
      add_up(p, page.block, s, at);
    }
  }

  // Turns the differences of a segment into keys, in the order in which sealing reconstructed them. Eight channels side
  // by side: one sum waits for the one before.
  static void add_up(const Page& p, const std::byte* page, int s, float* at) {
    alignas(64) std::uint8_t codes[kDeltaMaxHead];
    p.base_codes(page, s, codes);
    const float scale = p.base_scale(page, s);
    constexpr int kSide = 8;
    for (int c = 0; c < p.d; c += kSide) {
      float* row = at + static_cast<std::ptrdiff_t>(c) * kPanel;
      float sum[kSide];
      for (int i = 0; i < kSide; ++i) sum[i] = scale * (static_cast<float>(codes[c + i]) - 7.5f);
      for (int t = 0; t < p.segment; ++t)
        for (int i = 0; i < kSide; ++i) row[i * kPanel + t] = sum[i] += row[i * kPanel + t];
    }
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
