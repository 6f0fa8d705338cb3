#include "kernel/recurrence.hpp"

#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

KVASIR_INLINE F32 load_some(const float* p, int n) { return n < kLanes ? load_n(p, n) : load(p); }
KVASIR_INLINE void store_some(float* p, F32 x, int n) { n < kLanes ? store_n(p, x, n) : store(p, x); }
KVASIR_INLINE int lanes_left(std::int64_t n) { return n < kLanes ? static_cast<int>(n) : kLanes; }

void convolve(const ConvolutionRows& c) {
  for (std::int64_t at = 0; at < c.channels; at += kLanes) {
    const int n = lanes_left(c.channels - at);
    const F32 start = c.bias ? load_some(c.bias + at, n) : zero();
    for (std::int64_t i = 0; i < c.count; ++i) {
      F32 sum = start;
      for (int j = 0; j < c.taps; ++j)
        sum = fma(load_some(c.weights + j * c.weights_pitch + at, n), load_some(c.rows[i + j] + at, n), sum);
      store_some(c.out + i * c.out_pitch + at, c.silu ? silu(sum) : sum, n);
    }
  }
}

void normalise(float* x, std::int64_t count, std::int64_t n, std::int64_t pitch, float least, float factor) {
  for (std::int64_t r = 0; r < count; ++r, x += pitch) {
    F32 sum = zero();
    for (std::int64_t i = 0; i < n; i += kLanes) {
      const F32 v = load_some(x + i, lanes_left(n - i));
      sum = fma(v, v, sum);
    }
    const float length = __builtin_sqrtf(reduce_add(sum));
    const F32 scale = set1(factor / (length < least ? least : length));
    for (std::int64_t i = 0; i < n; i += kLanes) {
      const int m = lanes_left(n - i);
      store_some(x + i, mul(load_some(x + i, m), scale), m);
    }
  }
}

// V vectors of columns from `first` on, through all tokens: they stay in the first-level cache meanwhile. Of the last
// one `last` lanes are values.
template <int V, bool ByKey>
KVASIR_INLINE void update_columns(const StateRows& r, std::int64_t first, int last) {
  float* const state = r.state + first;
  for (std::int64_t t = 0; t < r.count; ++t) {
    const float *const k = r.k + t * r.key_pitch, *const q = r.q + t * r.key_pitch;
    const float* const v = r.v + t * r.value_pitch + first;
    const float* const decays = r.decay + t * r.gate_pitch;
    const F32 decay = set1(*decays), strength = set1(r.strength[t * r.gate_pitch]);
    F32 value[V], u[V];
    KVASIR_UNROLL(4)
    for (int c = 0; c < V; ++c) u[c] = value[c] = load_some(v + kLanes * c, c + 1 < V ? kLanes : last);
    if (r.delta) {
      F32 sum[2][V];
      KVASIR_UNROLL(4)
      for (int c = 0; c < V; ++c) sum[0][c] = sum[1][c] = zero();
      for (std::int64_t i = 0; i < r.key_dim; i += 2) KVASIR_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        const F32 key = set1(ByKey ? k[i + h] * decays[i + h] : k[i + h]);
        const float* const s = state + (i + h) * r.state_pitch;
        KVASIR_UNROLL(4)
        for (int c = 0; c < V; ++c) sum[h][c] = fma(key, load(s + kLanes * c), sum[h][c]);
      }
      KVASIR_UNROLL(4)
      for (int c = 0; c < V; ++c) {
        const F32 known = add(sum[0][c], sum[1][c]);
        u[c] = sub(value[c], ByKey ? known : mul(decay, known));
      }
    }
    F32 out[2][V];
    KVASIR_UNROLL(4)
    for (int c = 0; c < V; ++c) {
      u[c] = mul(strength, u[c]);
      out[0][c] = out[1][c] = zero();
    }
    for (std::int64_t i = 0; i < r.key_dim; i += 2) KVASIR_UNROLL(2)
    for (int h = 0; h < 2; ++h) {
      const F32 key = set1(k[i + h]), query = set1(q[i + h]), kept = ByKey ? set1(decays[i + h]) : decay;
      float* const s = state + (i + h) * r.state_pitch;
      KVASIR_UNROLL(4)
      for (int c = 0; c < V; ++c) {
        const F32 next = fma(key, u[c], mul(kept, load(s + kLanes * c)));
        store(s + kLanes * c, next);
        out[h][c] = fma(query, next, out[h][c]);
      }
    }
    if (!r.out) continue;
    KVASIR_UNROLL(4)
    for (int c = 0; c < V; ++c) {
      F32 answer = add(out[0][c], out[1][c]);
      if (r.skip != 0.0f) answer = fma(set1(r.skip), value[c], answer);
      store_some(r.out + t * r.out_pitch + first + kLanes * c, answer, c + 1 < V ? kLanes : last);
    }
  }
}

template <bool ByKey>
KVASIR_INLINE void update_all(const StateRows& r) {
  std::int64_t at = 0;
  for (; r.value_dim - at >= 2 * kLanes; at += 2 * kLanes) update_columns<2, ByKey>(r, at, kLanes);
  for (; at < r.value_dim; at += kLanes) update_columns<1, ByKey>(r, at, lanes_left(r.value_dim - at));
}

void update(const StateRows& r) { r.by_key ? update_all<true>(r) : update_all<false>(r); }

// A vector of columns through all tokens, as update_columns.
void scan(const ScanRows& r) {
  for (std::int64_t first = 0; first < r.value_dim; first += kLanes) {
    const int n = lanes_left(r.value_dim - first);
    const F32 skip = load_some(r.skip + first, n);
    float* const state = r.state + first;
    for (std::int64_t t = 0; t < r.count; ++t) {
      const float *const k = r.k + t * r.gate_pitch, *const q = r.q + t * r.gate_pitch;
      const F32 step = load_some(r.steps + t * r.gate_pitch + first, n);
      const F32 v = load_some(r.v + t * r.value_pitch + first, n), u = mul(step, v);
      F32 out[2] = {zero(), zero()};
      for (std::int64_t i = 0; i < r.key_dim; i += 2) KVASIR_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        float* const s = state + (i + h) * r.state_pitch;
        const F32 kept = exp(mul(step, load_some(r.rates + (i + h) * r.rates_pitch + first, n)));
        const F32 next = fma(set1(k[i + h]), u, mul(kept, load(s)));
        store(s, next);
        out[h] = fma(set1(q[i + h]), next, out[h]);
      }
      if (r.out) store_some(r.out + t * r.out_pitch + first, fma(skip, v, add(out[0], out[1])), n);
    }
  }
}

// max(x, 0) + ln(1 + u), u = e^-|x| in (0, 1]: ln(1 + u) = 2 artanh(s) with s = u / (2 + u) of at most 1/3, whose
// series is cut where a term is below 2e-8 of the first.
KVASIR_INLINE F32 softplus_of(F32 x) {
  const F32 positive = max(x, zero());
  const F32 u = exp(sub(x, add(positive, positive)));
  const F32 s = div(u, add(set1(2.0f), u)), square = mul(s, s);
  F32 sum = set1(1.0f / 15.0f);
  for (const float term : {1.0f / 13, 1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3, 1.0f})
    sum = fma(sum, square, set1(term));
  return fma(add(s, s), sum, positive);
}

void softplus(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const int m = lanes_left(n - i);
    store_some(x + i, softplus_of(load_some(x + i, m)), m);
  }
}

void forget(float* x, std::int64_t n, float factor, float floor) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const int m = lanes_left(n - i);
    const F32 v = load_some(x + i, m);
    const F32 g = floor == 0.0f ? mul(set1(factor), softplus_of(v))
                                : div(set1(floor), add(set1(1.0f), exp(mul(set1(-factor), v))));
    store_some(x + i, exp(g), m);
  }
}

}  // namespace

extern const RecurrenceKernels recurrence_table;
const RecurrenceKernels recurrence_table{convolve, normalise, update, scan, softplus, forget};

}  // namespace kvasir::kernel::KVASIR_TARGET
