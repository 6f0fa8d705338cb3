// The codecs that store numbers as they are: element formats for PlainCodec, which does the rest.
//
// K is T[d][capacity], V is T[capacity][d]; sealed and raw alike.
#pragma once

#include "kernel/attention.hpp"
#include "kv/codec.hpp"
#include "kv/families/row_blocks.hpp"
#include "simd/vec.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

#if KVASIR_VECTOR_REGISTERS >= 32
constexpr int kAccumulators = 16;
#else
constexpr int kAccumulators = 4;
#endif

// Vectors that `rows` query rows handle at once.
constexpr int vectors_for(int rows) {
  return rows >= kAccumulators ? 1 : rows <= 4 ? (kAccumulators / 4) : kAccumulators / 8;
}

// Vectors of tokens: the whole page where sums and operands fit the registers, which is then read in the order of its
// bytes.
constexpr int token_vectors_for(int rows) {
  constexpr int kPage = kPageTokens / kLanes;
  return kAccumulators == 16 && rows * kPage <= 24 ? kPage : vectors_for(rows);
}

// Extents of pages are scattered and short for hardware prefetchers, so while one block is read one of the next is
// fetched, as many bytes per iteration as the iteration reads.
template <int bytes>
KVASIR_INLINE void prefetch(const std::byte* p) {
  KVASIR_UNROLL(8)
  for (int i = 0; i < bytes; i += 64) fetch_ahead(p + i);
}

KVASIR_INLINE int lower(int a, int b) { return a < b ? a : b; }

// Element: T, load(const T*), store(T*, F32), and convert(float) -> T.
template <class Element>
struct Plain {
  using T = typename Element::T;

  static std::size_t bytes(int d, const CodecParams& = {}) {
    return static_cast<std::size_t>(kPageTokens) * static_cast<std::size_t>(d) * sizeof(T);
  }

  static const char* refuse(int d, Side, CodecParams* params) {
    if (params->group || params->unbiased) return "it has no parameters";
    return d > 0 && d % 8 == 0 ? nullptr : "the head size must be a multiple of 8";
  }

  static void seal_k(const Head& head, const std::byte* raw, int skip, float*, std::byte* page) {
    const int d = head.d;
    __builtin_memcpy(page, raw, bytes(d));
    for (int c = 0; c < d; ++c)
      __builtin_memset(page + static_cast<std::size_t>(c) * kPageTokens * sizeof(T), 0,
                       static_cast<std::size_t>(skip) * sizeof(T));
  }
  static void seal_v(const Head& head, const std::byte* raw, int skip, float*, std::byte* page) {
    const int d = head.d;
    __builtin_memcpy(page, raw, bytes(d));
    __builtin_memset(page, 0, static_cast<std::size_t>(skip) * static_cast<std::size_t>(d) * sizeof(T));
  }

  static void unseal_k(const Head& head, const PageRef& page, float* tile) {
    const int d = head.d;
    const T* x = reinterpret_cast<const T*>(page.block);
    for (int c = 0; c < d; ++c) {
      const T* row = x + static_cast<std::ptrdiff_t>(c) * page.capacity;
      for (int t = 0; t < page.end; t += kLanes)
        store(tile + (static_cast<std::ptrdiff_t>(t / kPanel) * d + c) * kPanel + t % kPanel, Element::load(row + t));
    }
  }
  static void unseal_v(const Head& head, const PageRef& page, float* tile) {
    const int d = head.d;
    const T* x = reinterpret_cast<const T*>(page.block);
    for (int t = 0; t < page.end; ++t) {
      const T* row = x + static_cast<std::ptrdiff_t>(t) * d;
      for (int c = 0; c < d; c += kLanes) {
        float* to = tile + (static_cast<std::ptrdiff_t>(c / kPanel) * kPageTokens + t) * kPanel + c % kPanel;
        store(to, select_first(lower(kLanes, d - c), Element::load(row + c), zero()));
      }
    }
  }

  // Where the next block is read when this one is read at element `i`; without a next block a harmless place.
  KVASIR_INLINE const std::byte* next_at(const PageRef& page, std::ptrdiff_t i) {
    return (page.next ? page.next : page.block) + i * static_cast<std::ptrdiff_t>(sizeof(T));
  }

  // Channels [first, last) of 16 N tokens from x on; the sums of those before are in `scores`.
  template <int G, int N>
  KVASIR_INLINE void dots_part(const T* x, std::ptrdiff_t capacity, int d, int first, int last, const float* q,
                               float* scores, int stride, const std::byte* next) {
    constexpr int kBytes = N * kLanes * static_cast<int>(sizeof(T));
    F32 acc[G][N];
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) KVASIR_UNROLL(8)
    for (int n = 0; n < N; ++n) acc[g][n] = first == 0 ? zero() : load(scores + g * stride + n * kLanes);
    KVASIR_UNROLL(1)
    for (int c = first; c < last; ++c) {
      prefetch<kBytes>(next + (c - first) * kBytes);
      F32 k[N];
      KVASIR_UNROLL(8)
      for (int n = 0; n < N; ++n) k[n] = Element::load(x + c * capacity + n * kLanes);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        const F32 y = set1(q[g * d + c]);
        KVASIR_UNROLL(8)
        for (int n = 0; n < N; ++n) acc[g][n] = fma(y, k[n], acc[g][n]);
      }
    }
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) KVASIR_UNROLL(8)
    for (int n = 0; n < N; ++n) store(scores + g * stride + n * kLanes, acc[g][n]);
  }

  template <int G>
  KVASIR_INLINE void dots_rows(const PageRef& page, int d, const float* q, float* scores, int stride) {
    constexpr int N = token_vectors_for(G), kFew = vectors_for(G);
    const T* x = reinterpret_cast<const T*>(page.block);
    // Block by block of channels, each 8 KiB of 16-bit numbers in one piece: memory answers faster than to one walk
    // over the page per 16 N tokens.
    constexpr int kChannels = 32;
    for (int first = 0; first < d; first += kChannels) {
      const int last = lower(d, first + kChannels);
      const auto next = [&](int t) { return next_at(page, first * kPageTokens + t * (last - first)); };
      int t = page.begin / kLanes * kLanes;
      for (; t + (N - 1) * kLanes < page.end; t += N * kLanes)
        dots_part<G, N>(x + t, page.capacity, d, first, last, q, scores + t, stride, next(t));
      if constexpr (kFew < N)
        for (; t + (kFew - 1) * kLanes < page.end; t += kFew * kLanes)
          dots_part<G, kFew>(x + t, page.capacity, d, first, last, q, scores + t, stride, next(t));
      for (; t < page.end; t += kLanes)
        dots_part<G, 1>(x + t, page.capacity, d, first, last, q, scores + t, stride, next(t));
    }
  }

  static void dots(const Head& head, const PageRef* pages, int count, const float* q, int g, float* scores,
                   int stride) {
    const int d = head.d;
    for (int i = 0; i < count; ++i)
      for_row_blocks(g, [&]<int G>(int r) {
        dots_rows<G>(pages[i], d, q + static_cast<std::ptrdiff_t>(r) * d,
                     scores + static_cast<std::ptrdiff_t>(r) * stride + i * kPageTokens, stride);
      });
  }

  // 16 N channels from x on.
  template <int G, int N>
  KVASIR_INLINE void accumulate_part(const T* x, int begin, int end, int d, const float* w, int stride, float* out,
                                     int pitch, const std::byte* next) {
    constexpr int kBytes = N * kLanes * static_cast<int>(sizeof(T));
    F32 acc[G][N];
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) KVASIR_UNROLL(8)
    for (int n = 0; n < N; ++n) acc[g][n] = zero();
    KVASIR_UNROLL(1)
    for (int t = begin; t < end; ++t) {
      prefetch<kBytes>(next + t * kBytes);
      F32 v[N];
      KVASIR_UNROLL(8)
      for (int n = 0; n < N; ++n) v[n] = Element::load(x + static_cast<std::ptrdiff_t>(t) * d + n * kLanes);
      KVASIR_UNROLL(8)
      for (int g = 0; g < G; ++g) {
        const F32 y = set1(w[g * stride + t]);
        KVASIR_UNROLL(8)
        for (int n = 0; n < N; ++n) acc[g][n] = fma(y, v[n], acc[g][n]);
      }
    }
    KVASIR_UNROLL(8)
    for (int g = 0; g < G; ++g) KVASIR_UNROLL(8)
    for (int n = 0; n < N; ++n) store(out + g * pitch + n * kLanes, acc[g][n] + zero());
  }

  template <int G>
  KVASIR_INLINE void accumulate_rows(const PageRef& page, int d, const float* w, int stride, float* out, int pitch) {
    constexpr int N = vectors_for(G);
    const T* x = reinterpret_cast<const T*>(page.block);
    int c = 0;
    for (; c + N * kLanes <= pitch; c += N * kLanes)
      accumulate_part<G, N>(x + c, page.begin, page.end, d, w, stride, out + c, pitch, next_at(page, kPageTokens * c));
    for (; c < pitch; c += kLanes)
      accumulate_part<G, 1>(x + c, page.begin, page.end, d, w, stride, out + c, pitch, next_at(page, kPageTokens * c));
  }

  static void accumulate(const Head& head, const PageRef* pages, int count, const float* weights, int stride, int g,
                         float* out, int pitch) {
    const int d = head.d;
    for (int i = 0; i < count; ++i)
      for_row_blocks(g, [&]<int G>(int r) {
        accumulate_rows<G>(pages[i], d, weights + static_cast<std::ptrdiff_t>(r) * stride + i * kPageTokens, stride,
                           out + (static_cast<std::ptrdiff_t>(i) * g + r) * pitch, pitch);
      });
  }

  static void write_k(std::byte* block, int capacity, int row, int n, const float* x, std::ptrdiff_t stride, int d) {
    T* to = reinterpret_cast<T*>(block) + row;
    T line[kLanes];
    for (int t = 0; t < n; ++t) {
      for (int c = 0; c < d; c += kLanes) {
        const int m = lower(kLanes, d - c);
        Element::store(line, load_n(x + t * stride + c, m));
        for (int j = 0; j < m; ++j) to[static_cast<std::ptrdiff_t>(c + j) * capacity + t] = line[j];
      }
    }
  }
  static void write_v(std::byte* block, int, int row, int n, const float* x, std::ptrdiff_t stride, int d) {
    T* to = reinterpret_cast<T*>(block) + static_cast<std::ptrdiff_t>(row) * d;
    T line[kLanes];
    for (int t = 0; t < n; ++t) {
      int c = 0;
      for (; c + kLanes <= d; c += kLanes)
        Element::store(to + static_cast<std::ptrdiff_t>(t) * d + c, load(x + t * stride + c));
      if (c == d) continue;
      Element::store(line, load_n(x + t * stride + c, d - c));
      __builtin_memcpy(to + static_cast<std::ptrdiff_t>(t) * d + c, line, static_cast<std::size_t>(d - c) * sizeof(T));
    }
  }

  static constexpr Codec codec(const char* summary, RawType type) {
    return {.summary = summary,
            .raw_type = type,
            .lossless = true,
            .refuse = refuse,
            .k = {.bytes = bytes, .seal = seal_k, .unseal = unseal_k},
            .v = {.bytes = bytes, .seal = seal_v, .unseal = unseal_v},
            .dots = dots,
            .accumulate = accumulate,
            .write_k = write_k,
            .write_v = write_v};
  }
};

}  // namespace
}  // namespace kvasir::kv::entries::codecs::KVASIR_TARGET
