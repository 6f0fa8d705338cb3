#include "kernel/bidirectional.hpp"

#include "kernel/ops.hpp"
#include "simd/vec.hpp"

namespace kvasir::kernel::KVASIR_TARGET {
namespace {

using namespace simd::KVASIR_TARGET;

// kt (d, pitch): keys channel by channel, so that a lane is a row.
void transpose(const WholeHead& h, std::int64_t pitch, float* kt) {
  for (int c = 0; c < h.d; ++c) {
    float* const row = kt + c * pitch;
    for (std::int64_t r = 0; r < h.n; ++r) row[r] = h.k[r * h.k_stride + c];
    for (std::int64_t r = h.n; r < pitch; ++r) row[r] = 0;
  }
}

// Scores of one query with all rows, and their maximum.
float score(const WholeHead& h, const float* q, const float* kt, std::int64_t pitch, float* s) {
  for (std::int64_t r = 0; r < pitch; r += kLanes) {
    F32 sum = zero();
    for (int c = 0; c < h.d; ++c) sum = fma(set1(q[c]), load(kt + c * pitch + r), sum);
    store(s + r, mul(sum, set1(h.scale)));
  }
  if (h.soft_cap > 0) ops_table.soft_cap(s, h.soft_cap, h.n);
  float most = s[0];
  for (std::int64_t r = 1; r < h.n; ++r) most = s[r] > most ? s[r] : most;
  return most;
}

// s becomes exp(s - most), 0 behind the last row; returns the sum.
float weigh(std::int64_t n, std::int64_t pitch, float most, float* s) {
  F32 sum = zero();
  for (std::int64_t r = 0; r < pitch; r += kLanes) {
    F32 w = exp(sub(load(s + r), set1(most)));
    if (r + kLanes > n) w = select_first(static_cast<int>(n - r), w, zero());
    store(s + r, w);
    sum = add(sum, w);
  }
  return reduce_add(sum);
}

void attend(const WholeHead& h, float* scratch) {
  const std::int64_t pitch = (h.n + 15) / 16 * 16;
  float *const kt = scratch, *const s = scratch + pitch * h.d;
  transpose(h, pitch, kt);
  for (std::int64_t i = 0; i < h.n; ++i) {
    const float most = score(h, h.q + i * h.q_stride, kt, pitch, s);
    const float total = weigh(h.n, pitch, most, s);
    const F32 factor = set1(1.0f / total);
    float* const out = h.out + i * h.out_stride;
    for (int c = 0; c < h.dv; c += kLanes) {
      const int m = h.dv - c < kLanes ? h.dv - c : kLanes;
      F32 sum = zero();
      for (std::int64_t r = 0; r < h.n; ++r) sum = fma(set1(s[r]), load_n(h.v + r * h.v_stride + c, m), sum);
      store_n(out + c, mul(sum, factor), m);
    }
  }
}

}  // namespace

extern const BidirectionalKernels bidirectional_table;
const BidirectionalKernels bidirectional_table{attend};

}  // namespace kvasir::kernel::KVASIR_TARGET
