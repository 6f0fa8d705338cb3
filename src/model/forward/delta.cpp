// Gated DeltaNet (model::Delta).
#include <algorithm>
#include <cmath>

#include "kernel/ops.hpp"
#include "model/apply_norm.hpp"
#include "model/forward/mixers.hpp"
#include "model/forward/scalar.hpp"

namespace kvasir::model {
namespace {

// A row by key head, [q | k | v ... | z ...], to [q | k | v] and z.
void part_heads(const Delta& d, const float* from, float* to, float* z) {
  const std::int64_t key = d.d, values = std::int64_t{d.value_heads} / d.key_heads * d.dv;
  const std::int64_t keys = d.key_heads * key;
  for (std::int64_t h = 0; h < d.key_heads; ++h, from += 2 * (key + values)) {
    std::copy_n(from, key, to + h * key);
    std::copy_n(from + key, key, to + keys + h * key);
    std::copy_n(from + 2 * key, values, to + 2 * keys + h * values);
    std::copy_n(from + 2 * key + values, values, z + h * values);
  }
}

}  // namespace

void widen(MixerWidths& w, const Delta& d) {
  widen(w, recurrent_shape(d));
  w.mixed = std::max(w.mixed, d.qkvz.rows + 2 * d.value_heads);
}

// q, k and v to the channels; decays and strengths to the steps; z.
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const Delta& d) {
  const std::int64_t heads = d.value_heads, channels = d.convolution.channels;
  float* const fused = m.mixed + rows.first * d.qkvz.rows;
  float* const b = m.mixed + step.max_tokens * d.qkvz.rows + rows.first * (d.ba ? 2 * heads : heads);
  float* const a = m.mixed + step.max_tokens * (d.qkvz.rows + heads) + rows.first * heads;
  step.multiply(rows, step.residual(rows), norm,
                {{d.qkv, m.channels + rows.first * channels},
                 {d.z, m.z(rows)},
                 {d.qkvz, fused},
                 {d.ba, b},
                 {d.beta, b},
                 {d.alpha, a}});
  const std::int64_t r = d.value_heads / d.key_heads;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (d.qkvz)
        part_heads(d, fused + row * d.qkvz.rows, m.channels + (rows.first + row) * channels,
                   m.z(rows) + row * heads * d.dv);
      float* const decays = m.steps + (rows.first + row) * 2 * heads;
      for (std::int64_t h = 0; h < heads; ++h) {
        const float* const pair = b + row * 2 * heads + h / r * 2 * r + h % r;
        const float beta = d.ba ? pair[0] : b[row * heads + h], alpha = d.ba ? pair[r] : a[row * heads + h];
        decays[h] = std::exp(softplus(alpha + d.dt.bound[h]) * d.decay.bound[h]);
        decays[heads + h] = d.strength * sigmoid(beta);
      }
    }
  });
}

// Normed, then gated.
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const Delta& d) {
  const std::int64_t n = std::int64_t{d.value_heads} * d.dv;
  float* const y = m.states + rows.first * n;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      apply(d.norm, y + r * n, y + r * n, n);
      kernel::ops().gate[static_cast<std::size_t>(d.activation)](m.z(rows) + r * n, y + r * n, y + r * n, n);
    }
  });
  return y;
}

}  // namespace kvasir::model
