#include "kernel/attention.hpp"

#include <cfloat>

#include "kernel/power_of_two.hpp"
#include "simd/shapes.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// Rows and vectors of a register tile: 24 accumulators of 32 registers, 12 of 16 (AVX2 has two registers per vector).
constexpr int kRows = kOneShape ? 1 : 6;
constexpr int kVectors = KVASIR_VECTOR_REGISTERS >= 32 ? 4 : 1;
constexpr int kPanelVectors = kTilePanel / kLanes;
constexpr int kTileVectors = kTileTokens / kLanes;

KVASIR_INLINE int min_int(int a, int b) { return a < b ? a : b; }
KVASIR_INLINE int max_int(int a, int b) { return a > b ? a : b; }

// Of the tile that begins `rows` before the last row: as many as there is a shape for.
KVASIR_INLINE int tile_rows(int rows) { return rows >= kRows ? kRows : kFewShapes ? 1 : rows; }

// Calls f.template operator()<M>() with M = m, which is one of tile_rows.
template <class F>
KVASIR_INLINE void with_tile(int m, F&& f) {
  if constexpr (kFewShapes) {
    if (m == 1) return f.template operator()<1>();
  } else {
    switch (m) {
      case 1:
        return f.template operator()<1>();
      case 2:
        return f.template operator()<2>();
      case 3:
        return f.template operator()<3>();
      case 4:
        return f.template operator()<4>();
      case 5:
        return f.template operator()<5>();
      default:
        break;
    }
  }
  if constexpr (kRows > 1) f.template operator()<kRows>();
}

KVASIR_INLINE F32 minus_infinity() { return set1(-__builtin_inff()); }

// acc[m][n] = sum over i in [begin, end) of a[m][i] * panel[i][n], a rows of `pitch` floats, panel rows of kTilePanel.
template <int M, int N>
KVASIR_INLINE void multiply(const float* a, int pitch, const float* panel, int begin, int end, F32 (&acc)[M][N]) {
  KVASIR_UNROLL(8)
  for (int m = 0; m < M; ++m) KVASIR_UNROLL(8)
  for (int n = 0; n < N; ++n) acc[m][n] = zero();
  KVASIR_UNROLL(1)
  for (int i = begin; i < end; ++i) {
    F32 b[N];
    KVASIR_UNROLL(8)
    for (int n = 0; n < N; ++n) b[n] = load(panel + i * kTilePanel + n * kLanes);
    KVASIR_UNROLL(8)
    for (int m = 0; m < M; ++m) {
      const F32 x = set1(a[m * pitch + i]);
      KVASIR_UNROLL(8)
      for (int n = 0; n < N; ++n) acc[m][n] = fma(x, b[n], acc[m][n]);
    }
  }
}

KVASIR_INLINE int max_end(const int* ends, int rows) {
  int end = 0;
  for (int r = 0; r < rows; ++r) end = max_int(end, ends[r]);
  return end;
}

void scale_rows(const float* q, std::ptrdiff_t stride, int rows, int d, float scale, float* out) {
  const F32 s = set1(scale * kLog2E);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < d; c += kLanes) {
      const int n = min_int(kLanes, d - c);
      store_n(out + static_cast<std::ptrdiff_t>(r) * d + c, load_n(q + r * stride + c, n) * s, n);
    }
  }
}

template <int M, int N>
KVASIR_INLINE void scores_tile(const float* q, int d, const float* panel, float* s) {
  F32 acc[M][N];
  multiply<M, N>(q, d, panel, 0, d, acc);
  KVASIR_UNROLL(8)
  for (int m = 0; m < M; ++m) KVASIR_UNROLL(8)
  for (int n = 0; n < N; ++n) store(s + m * kTileTokens + n * kLanes, acc[m][n]);
}

// As many columns as there are, in whole vectors: short pages (sinks) and those on the diagonal have few.
template <int M>
KVASIR_INLINE void scores_rows(const float* q, int d, const float* panel, int columns, float* s) {
  if constexpr (kVectors == 4) {
    if (columns > 3 * kLanes) return scores_tile<M, 4>(q, d, panel, s);
    if constexpr (!kFewShapes) {
      if (columns > 2 * kLanes) return scores_tile<M, 3>(q, d, panel, s);
      if (columns > kLanes) return scores_tile<M, 2>(q, d, panel, s);
    }
  }
  for (int c = 0; c < columns; c += kLanes) scores_tile<M, 1>(q, d, panel + c, s + c);
}

void scores(const float* q, int rows, int d, const float* k_tile, const int* ends, float* s) {
  for (int p = 0; p * kTilePanel < kTileTokens; ++p) {
    const float* panel = k_tile + static_cast<std::ptrdiff_t>(p) * d * kTilePanel;
    for (int r = 0, m = 0; r < rows; r += m) {
      m = tile_rows(rows - r);
      const int columns = min_int(kTilePanel, max_end(ends + r, m) - p * kTilePanel);
      if (columns <= 0) continue;
      const float* a = q + static_cast<std::ptrdiff_t>(r) * d;
      float* out = s + r * kTileTokens + p * kTilePanel;
      with_tile(
          m, [&]<int M>() __attribute__((always_inline)) { scores_rows<M>(a, d, panel, columns, out); });
    }
  }
}

// Vector i of a row of scores, lanes outside [begin, end) replaced by `hidden`.
KVASIR_INLINE F32 visible(F32 x, int i, int begin, int end, F32 hidden) {
  const int from = begin - i * kLanes;
  const int to = end - i * kLanes;
  if (to < kLanes) x = select_first(max_int(to, 0), x, hidden);
  if (from > 0) x = select_first(min_int(from, kLanes), hidden, x);
  return x;
}

// The maximum of a row; hides what is not visible in its vectors below `vectors`.
KVASIR_INLINE float hide_row(float* s, int begin, int end, int vectors) {
  F32 x[kTileVectors];
  KVASIR_UNROLL(8)
  for (int i = 0; i < kTileVectors; ++i) {
    x[i] = minus_infinity();
    if (i >= vectors) continue;
    x[i] = load(s + i * kLanes);
    if (begin > i * kLanes || end < (i + 1) * kLanes) {
      x[i] = visible(x[i], i, begin, end, minus_infinity());
      store(s + i * kLanes, x[i]);
    }
  }
  return reduce_max(max(max(max(x[0], x[1]), max(x[2], x[3])), max(max(x[4], x[5]), max(x[6], x[7]))));
}

// tanh |x| = (1 - e) / (1 + e) with e = 2^(-2 log2(e) |x|): to within 2e-7, which is what scores of a cap need.
void cap(float* s, int stride, int rows, float soft_cap) {
  const float limit = soft_cap * kLog2E;  // scores are in units of ln 2
  const F32 inverse = set1(1.0f / limit);
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i < kTileTokens; i += kLanes) {
      float* const p = s + static_cast<std::ptrdiff_t>(r) * stride + i;
      const F32 x = load(p) * inverse;
      const F32 e = weight_of(abs(x) * set1(-2.0f * kLog2E));
      store(p, limit_size(x, div(sub(set1(1.0f), e), add(set1(1.0f), e))) * set1(limit));
    }
}

// Vectors from `vectors` on get weights of 0, as hidden scores would.
KVASIR_INLINE float weigh_row(float* s, float m, int vectors) {
  const F32 shift = set1(m < -FLT_MAX ? -FLT_MAX : m);  // so that -inf - shift is -inf, not NaN
  F32 sum = zero();
  KVASIR_UNROLL(8)
  for (int i = 0; i < kTileVectors; ++i) {
    F32 w = zero();
    if (i < vectors) w = weight_of(load(s + i * kLanes) - shift);
    store(s + i * kLanes, w);
    sum = sum + w;
  }
  return reduce_add(sum);
}

// Two passes over a few rows: the reductions of one row overlap with those of the next.
void weigh(float* s, int stride, int rows, const int* begins, const int* ends, float* max_out, float* sum_out) {
  constexpr int kBatch = 8;
  const auto vectors = [&](int r) { return (ends[r] + kLanes - 1) / kLanes; };
  for (int r0 = 0; r0 < rows; r0 += kBatch) {
    const int last = min_int(rows, r0 + kBatch);
    for (int r = r0; r < last; ++r)
      max_out[r] = hide_row(s + static_cast<std::ptrdiff_t>(r) * stride, begins[r], ends[r], vectors(r));
    for (int r = r0; r < last; ++r)
      sum_out[r] = weigh_row(s + static_cast<std::ptrdiff_t>(r) * stride, max_out[r], vectors(r));
  }
}

// Merges max and sum of up to 16 rows and gives the factors of the two outs.
KVASIR_INLINE void fold_scalars(const float* max_b, const float* sum_b, float* max_a, float* sum_a, int n,
                                float* factor_a, float* factor_b) {
  const F32 ma = load_n(max_a, n);
  const F32 mb = load_n(max_b, n);
  const F32 m = max(ma, mb);
  const F32 shift = max(m, set1(-FLT_MAX));
  const F32 fa = weight_of(ma - shift);
  const F32 fb = weight_of(mb - shift);
  store(factor_a, fa);
  store(factor_b, fb);
  store_n(max_a, m, n);
  store_n(sum_a, fma(load_n(sum_b, n), fb, load_n(sum_a, n) * fa), n);
}

// out = out * fa + product * fb, row by row.
template <int M, int N>
KVASIR_INLINE void fold_tile_part(const float* w, const float* panel, int begin, int end, const float* fa,
                                  const float* fb, float* out, int pitch) {
  F32 acc[M][N];
  multiply<M, N>(w, kTileTokens, panel, begin, end, acc);
  KVASIR_UNROLL(8)
  for (int m = 0; m < M; ++m) {
    const F32 a = set1(fa[m]);
    const F32 b = set1(fb[m]);
    KVASIR_UNROLL(8)
    for (int n = 0; n < N; ++n) {
      float* o = out + m * pitch + n * kLanes;
      store(o, fma(acc[m][n] + zero(), b, load(o) * a));
    }
  }
}

// One panel of V, `vectors` of it used.
template <int M>
KVASIR_INLINE void fold_tile_rows(const float* w, const float* panel, int vectors, int begin, int end, const float* fa,
                                  const float* fb, float* out, int pitch) {
  if (kVectors == kPanelVectors && vectors == kPanelVectors) {
    fold_tile_part<M, kVectors>(w, panel, begin, end, fa, fb, out, pitch);
  } else {
    for (int n = 0; n < vectors; ++n)
      fold_tile_part<M, 1>(w, panel + n * kLanes, begin, end, fa, fb, out + n * kLanes, pitch);
  }
}

// Rows of `w` against all panels of V.
KVASIR_INLINE void fold_tile_panels(const float* w, int rows, int d, const float* v_tile, int begin, const int* ends,
                                    const float* fa, const float* fb, float* to) {
  const int pitch = out_pitch(d);
  for (int c = 0; c < pitch; c += kTilePanel) {
    const float* panel = v_tile + static_cast<std::ptrdiff_t>(c) * kTileTokens;
    const int vectors = min_int(kPanelVectors, (pitch - c) / kLanes);
    for (int r = 0, m = 0; r < rows; r += m) {
      m = tile_rows(rows - r);
      const int end = max_end(ends + r, m);
      const float* a = w + static_cast<std::ptrdiff_t>(r) * kTileTokens;
      float* out = to + static_cast<std::ptrdiff_t>(r) * pitch + c;
      const float* ra = fa + r;
      const float* rb = fb + r;
      with_tile(
          m, [&]<int M>() __attribute__((always_inline)) {
            fold_tile_rows<M>(a, panel, vectors, begin, end, ra, rb, out, pitch);
          });
    }
  }
}

void fold_tile(const float* weights, int rows, int d, const float* v_tile, int begin, const int* ends,
               const float* page_max, const float* page_sum, const States& into) {
  constexpr int kChunk = 96;  // rows whose factors are held at once
  float fa[kChunk];
  float fb[kChunk];
  for (int r0 = 0; r0 < rows; r0 += kChunk) {
    const int chunk = min_int(kChunk, rows - r0);
    for (int r = 0; r < chunk; r += kLanes)
      fold_scalars(page_max + r0 + r, page_sum + r0 + r, into.max + r0 + r, into.sum + r0 + r,
                   min_int(kLanes, chunk - r), fa + r, fb + r);
    fold_tile_panels(weights + static_cast<std::ptrdiff_t>(r0) * kTileTokens, chunk, d, v_tile, begin, ends + r0, fa,
                     fb, into.out + static_cast<std::ptrdiff_t>(r0) * out_pitch(d));
  }
}

void fold(int rows, int d, const States& other, const States& into) {
  const int pitch = out_pitch(d);
  float fa[kLanes];
  float fb[kLanes];
  for (int r0 = 0; r0 < rows; r0 += kLanes) {
    const int n = min_int(kLanes, rows - r0);
    fold_scalars(other.max + r0, other.sum + r0, into.max + r0, into.sum + r0, n, fa, fb);
    for (int r = 0; r < n; ++r) {
      const F32 a = set1(fa[r]);
      const F32 b = set1(fb[r]);
      for (int c = 0; c < pitch; c += kLanes) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r0 + r) * pitch + c;
        store(into.out + at, fma(load(other.out + at), b, load(into.out + at) * a));
      }
    }
  }
}

void clear(int rows, int d, const States& states) {
  const std::ptrdiff_t n = static_cast<std::ptrdiff_t>(rows) * out_pitch(d);
  for (int r = 0; r < rows; ++r) {
    states.max[r] = -__builtin_inff();
    states.sum[r] = 0.0f;
  }
  for (std::ptrdiff_t i = 0; i < n; i += kLanes) store(states.out + i, zero());
}

void finish(int rows, int d, const States& states, float* out, std::ptrdiff_t stride) {
  const int pitch = out_pitch(d);
  for (int r = 0; r < rows; ++r) {
    const F32 factor = set1(states.sum[r] == 0.0f ? 0.0f : 1.0f / states.sum[r]);
    for (int c = 0; c < d; c += kLanes)
      store_n(out + r * stride + c, load(states.out + static_cast<std::ptrdiff_t>(r) * pitch + c) * factor,
              min_int(kLanes, d - c));
  }
}

}  // namespace

extern const AttentionKernels attention_table;
const AttentionKernels attention_table = {scale_rows, scores, cap, weigh, fold_tile, fold, clear, finish};

}  // namespace kvasir::kernel::KVASIR_TARGET
