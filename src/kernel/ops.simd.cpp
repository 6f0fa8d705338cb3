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

void add_rows(float* x, const float* y, std::int64_t n) {
  each_vector(n, [&](auto read, auto write) { write(x, add(read(x), read(y))); });
}

void silu_mul(const float* gate, const float* up, float* out, std::int64_t n) {
  each_vector(n, [&](auto read, auto write) { write(out, mul(silu(read(gate)), read(up))); });
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
const OpKernels ops_table = {rms_norm, add_rows, silu_mul, rope};

}  // namespace kvasir::kernel::KVASIR_TARGET
