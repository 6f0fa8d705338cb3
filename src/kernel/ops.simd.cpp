#include "kernel/ops.hpp"

#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// f(read, write) for every vector of n elements: read(p) and write(p, v) touch the vector's elements of the array p.
// Whole vectors go without masks, which cost more on several processors.
template <class F>
KVASIR_INLINE void each_vector(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    f([=](const float* p) { return load(p + i); }, [=](float* p, F32 v) { store(p + i, v); });
  if (i == n) return;
  const int m = static_cast<int>(n - i);
  f([=](const float* p) { return load_n(p + i, m); }, [=](float* p, F32 v) { store_n(p + i, v, m); });
}

void rms_norm(const float* x, const float* w, float* out, std::int64_t n, float eps) {
  F32 sum[4] = {zero(), zero(), zero(), zero()};
  std::int64_t i = 0;
  for (; i + 64 <= n; i += 64) KVASIR_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    const F32 v = load(x + i + 16 * j);
    sum[j] = fma(v, v, sum[j]);
  }
  for (; i < n; i += 16) {
    const F32 v = load_n(x + i, static_cast<int>(n - i < 16 ? n - i : 16));
    sum[0] = fma(v, v, sum[0]);
  }
  const float total = reduce_add(add(add(sum[0], sum[1]), add(sum[2], sum[3])));
  const F32 scale = set1(1.0f / __builtin_sqrtf(total / static_cast<float>(n) + eps));
  each_vector(n, [&](auto read, auto write) { write(out, mul(mul(read(x), scale), read(w))); });
}

// The mean first: a row may lie far from 0, and squares of it would lose the digits that matter.
void layer_norm(const float* x, const float* w, const float* b, float* out, std::int64_t n, float eps) {
  F32 sum = zero();
  each_vector(n, [&](auto read, auto) { sum = add(sum, read(x)); });
  const float mean = reduce_add(sum) / static_cast<float>(n);
  F32 squares = zero();
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const int m = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    const F32 v = select_first(m, sub(load_n(x + i, m), set1(mean)), zero());
    squares = fma(v, v, squares);
  }
  const F32 scale = set1(1.0f / __builtin_sqrtf(reduce_add(squares) / static_cast<float>(n) + eps));
  each_vector(n, [&](auto read, auto write) {
    const F32 normed = mul(mul(sub(read(x), set1(mean)), scale), read(w));
    write(out, b ? add(normed, read(b)) : normed);
  });
}

void add_rows(float* x, const float* y, std::int64_t n) {
  each_vector(n, [&](auto read, auto write) { write(x, add(read(x), read(y))); });
}

void scale_row(float* x, float factor, std::int64_t n) {
  each_vector(n, [&](auto read, auto write) { write(x, mul(read(x), set1(factor))); });
}

// Within 1.2e-7. NaN stays NaN.
KVASIR_INLINE F32 tanh(F32 x) { return sub(set1(1.0f), div(set1(2.0f), add(exp(add(x, x)), set1(1.0f)))); }

// Within 2e-7: Abramowitz and Stegun 7.1.26 for |x|, of which the sign is taken by x / |x|.
KVASIR_INLINE F32 erf(F32 x) {
  const F32 size = abs(x);
  const F32 t = div(set1(1.0f), fma(size, set1(0.3275911f), set1(1.0f)));
  F32 p = set1(1.061405429f);
  p = fma(p, t, set1(-1.453152027f));
  p = fma(p, t, set1(1.421413741f));
  p = fma(p, t, set1(-0.284496736f));
  p = fma(p, t, set1(0.254829592f));
  const F32 positive = sub(set1(1.0f), mul(mul(p, t), exp(sub(zero(), mul(x, x)))));
  return mul(div(x, max(set1(1e-30f), size)), positive);
}

void soft_cap(float* x, float cap, std::int64_t n) {
  const F32 c = set1(cap), inverse = set1(1.0f / cap);
  each_vector(n, [&](auto read, auto write) { write(x, mul(c, tanh(mul(read(x), inverse)))); });
}

struct Silu {
  KVASIR_INLINE F32 of(F32 x) { return silu(x); }
};
struct GeluTanh {
  KVASIR_INLINE F32 of(F32 x) {
    const F32 cubic = mul(fma(mul(x, x), set1(0.044715f), set1(1.0f)), x);
    return mul(mul(set1(0.5f), x), add(set1(1.0f), tanh(mul(set1(0.79788456f), cubic))));
  }
};
struct GeluErf {
  KVASIR_INLINE F32 of(F32 x) { return mul(mul(set1(0.5f), x), add(set1(1.0f), erf(mul(set1(0.70710678f), x)))); }
};
struct Relu {
  KVASIR_INLINE F32 of(F32 x) { return max(zero(), x); }  // NaN passes as the second operand
};
struct Relu2 {
  KVASIR_INLINE F32 of(F32 x) {
    const F32 positive = Relu::of(x);
    return mul(positive, positive);
  }
};

struct Sigmoid {
  KVASIR_INLINE F32 of(F32 x) { return div(set1(1.0f), add(set1(1.0f), exp(sub(zero(), x)))); }
};

struct ClampedSilu {
  KVASIR_INLINE F32 of(F32 x) {  // NaN passes as the second operand of min and max
    const F32 c = min(set1(7.0f), x);
    return div(c, add(set1(1.0f), exp(mul(set1(-1.702f), c))));
  }
  KVASIR_INLINE F32 factor(F32 up) { return add(max(set1(-7.0f), min(set1(7.0f), up)), set1(1.0f)); }
};

template <class A>
KVASIR_INLINE F32 factor(F32 up) {
  if constexpr (requires { A::factor(up); })
    return A::factor(up);
  else
    return up;
}

template <class A>
void gate(const float* g, const float* up, float* out, std::int64_t n) {
  each_vector(n, [&](auto read, auto write) { write(out, mul(A::of(read(g)), factor<A>(read(up)))); });
}

template <class A>
void activate(float* x, std::int64_t n) {
  each_vector(n, [&](auto read, auto write) { write(x, A::of(read(x))); });
}

// Of gates, which are few: element by element. NaN stays NaN.
float softplus(float x) { return (x > 0.0f ? x : 0.0f) + __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x))); }

void gate_softplus(const float* g, const float* up, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = softplus(g[i]) * up[i];
}

void activate_softplus(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = softplus(x[i]);
}

// e^x - 1 - x within 1e-7, x <= 0: the difference would lose the digits of small ones, for which it is a series.
KVASIR_INLINE F32 expm1_less_x(F32 x) {
  constexpr float kNear = -0.5f, kBelow = -0.50000006f;
  F32 p = set1(1.0f / 40320);
  for (const float c : {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f}) p = fma(p, x, set1(c));
  const F32 far = sub(sub(exp(x), set1(1.0f)), x);
  return add(zero_if_less(x, set1(kNear), mul(mul(x, x), p)), zero_if_less(set1(kBelow), x, far));
}

void xielu(float* x, const Xielu& by, std::int64_t n) {
  const F32 positive = set1(by.positive), negative = set1(by.negative), beta = set1(by.beta), eps = set1(by.eps);
  each_vector(n, [&](auto read, auto write) {
    const F32 v = read(x);
    const F32 below = min(eps, v);  // NaN passes as the second operand
    const F32 left = zero_if_less(zero(), v, mul(negative, add(expm1_less_x(below), sub(below, v))));
    write(x, fma(positive, Relu2::of(v), fma(beta, v, left)));
  });
}

void rope(float* head, const float* cos, const float* sin, std::int64_t pairs, RopePairs style) {
  if (style == RopePairs::kAdjacent) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float a = head[2 * i], b = head[2 * i + 1];
      head[2 * i] = a * cos[i] - b * sin[i];
      head[2 * i + 1] = a * sin[i] + b * cos[i];
    }
  } else {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float a = head[i], b = head[i + pairs];
      head[i] = a * cos[i] - b * sin[i];
      head[i + pairs] = a * sin[i] + b * cos[i];
    }
  }
}

}  // namespace

extern const OpKernels ops_table;
const OpKernels ops_table = {rms_norm,
                             layer_norm,
                             add_rows,
                             scale_row,
                             soft_cap,
                             {gate<Silu>, gate<GeluTanh>, gate<GeluErf>, gate<Relu2>, gate<Sigmoid>, gate<ClampedSilu>,
                              gate<Relu>, gate_softplus},
                             {activate<Silu>, activate<GeluTanh>, activate<GeluErf>, activate<Relu2>, activate<Sigmoid>,
                              activate<ClampedSilu>, activate<Relu>, activate_softplus},
                             xielu,
                             rope};

}  // namespace kvasir::kernel::KVASIR_TARGET
