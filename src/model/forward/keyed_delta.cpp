// Kimi Delta Attention (model::KeyedDelta).
#include <algorithm>
#include <cmath>

#include "kernel/ops.hpp"
#include "kernel/recurrence.hpp"
#include "model/apply_norm.hpp"
#include "model/forward/mixers.hpp"

namespace kvasir::model {

using kernel::ops;

void widen(MixerWidths& w, const KeyedDelta& d) {
  widen(w, recurrent_shape(d));
  w.mixed = std::max(w.mixed, d.q.rows + d.k.rows + d.v.rows + d.beta.rows + d.a_down.rows + d.a.rows + d.z_down.rows);
  w.states = std::max({w.states, d.a_down.rows, d.z_down.rows});
}

// q, k and v to the channels; decays and strengths to the steps; z.
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const KeyedDelta& d) {
  const std::int64_t heads = d.heads, keys = heads * d.d, values = heads * d.dv, channels = 2 * keys + values;
  float* room = m.mixed;
  const auto part = [&](const Linear& l) {
    float* const at = room + rows.first * l.rows;
    room += step.max_tokens * l.rows;
    return at;
  };
  float *const q = part(d.q), *const k = part(d.k), *const v = part(d.v), *const beta = part(d.beta);
  float *const a_down = part(d.a_down), *const a = part(d.a), *const z_down = part(d.z_down);
  float* const fused = m.channels + rows.first * channels;
  const Linear& a_first = d.a_down ? d.a_down : d.a;
  const Linear& z_first = d.z_down ? d.z_down : d.z;
  step.multiply(rows, step.residual(rows), norm,
                {{d.q, q},
                 {d.k, k},
                 {d.v, v},
                 {d.qkv, fused},
                 {d.beta, beta},
                 {a_first, d.a_down ? a_down : a},
                 {z_first, d.z_down ? z_down : m.z(rows)}});
  if (d.a_down) step.multiply(rows, a_down, {}, {{d.a, a}});
  if (d.z_down) step.multiply(rows, z_down, {}, {{d.z, m.z(rows)}});
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (!d.qkv) {
        float* const to = fused + r * channels;
        std::copy_n(q + r * keys, keys, to);
        std::copy_n(k + r * keys, keys, to + keys);
        std::copy_n(v + r * values, values, to + 2 * keys);
      }
      float* const decays = m.steps + (rows.first + r) * (keys + heads);
      std::copy_n(a + r * keys, keys, decays);
      ops().add(decays, d.dt.bound, keys);
      for (std::int64_t h = 0; h < heads; ++h) {
        const float rate = std::abs(d.decay.bound[h]);
        kernel::recurrence().forget(decays + h * d.d, d.d, d.floor == 0.0f ? -rate : rate, d.floor);
      }
      std::copy_n(beta + r * heads, heads, decays + keys);
      ops().activate[static_cast<std::size_t>(Activation::kSigmoid)](decays + keys, heads);
    }
  });
}

// Normed, then gated.
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const KeyedDelta& d) {
  const std::int64_t n = std::int64_t{d.heads} * d.dv;
  float* const y = m.states + rows.first * n;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      apply(d.norm, y + r * n, y + r * n, n);
      ops().gate[static_cast<std::size_t>(Activation::kSigmoid)](m.z(rows) + r * n, y + r * n, y + r * n, n);
    }
  });
  return y;
}

}  // namespace kvasir::model
