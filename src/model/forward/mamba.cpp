// Mamba (model::Mamba), whose gates are made of what the convolution gives: row by row, then the convolution, row by
// row once more, then the scan.
#include <algorithm>
#include <utility>

#include "kernel/ops.hpp"
#include "kernel/recurrence.hpp"
#include "model/apply_norm.hpp"
#include "model/forward/mixers.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

// The gates of the rows' tokens, [steps | k | q], of u, in whose place the steps are made.
void make_steps(const StepState& step, const MixerRows& rows_of, cpu::Rows& rows, const Mamba& m) {
  float* room = rows_of.mixed;
  const auto part = [&](std::int64_t width) {
    float* const at = room + rows.first * width;
    room += step.max_tokens * width;
    return at;
  };
  float* const u = part(m.channels);
  float *const t = part(m.t.rows), *const k = part(m.state), *const q = part(m.state);
  step.multiply(rows, u, {}, {{m.t, t}, {m.k, k}, {m.q, q}});
  step.multiply(rows, t, m.t_norm, {{m.dt, u}});
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const gates = rows_of.steps + (rows.first + r) * (m.channels + 2 * m.state);
      std::copy_n(u + r * m.channels, m.channels, gates);
      ops().add(gates, m.dt.bias.bound, m.channels);
      kernel::recurrence().softplus(gates, m.channels);
      float* to = gates + m.channels;
      for (const auto& [from, norm] : {std::pair(k, &m.k_norm), std::pair(q, &m.q_norm)}) {
        std::copy_n(from + r * m.state, m.state, to);
        if (*norm) apply(*norm, to, to, m.state);
        to += m.state;
      }
    }
  });
}

}  // namespace

void widen(MixerWidths& w, const Mamba& m) {
  widen(w, recurrent_shape(m));
  w.mixed = std::max<std::int64_t>(w.mixed, m.channels + m.t.rows + m.k.rows + m.q.rows);
  w.low = std::max(w.low, m.t.rows);
}

// x to the channels; z.
void project(const StepState& step, const MixerRows& rows_of, cpu::Rows& rows, const Norm& norm, const Mamba& m) {
  step.multiply(rows, step.residual(rows), norm,
                {{m.x, rows_of.channels + rows.first * m.channels}, {m.z, rows_of.z(rows)}});
}

void mix(StepState& step, const MixerRows& rows_of, int layer, const Mamba& m) {
  const kv::Recurrent how = recurrence_of(m);
  step.cache->convolve(layer, how, rows_of.channels, rows_of.mixed);
  step.in_rows([&](cpu::Rows& rows) { make_steps(step, rows_of, rows, m); });
  step.cache->recur(layer, how, rows_of.channels, rows_of.steps, rows_of.states);
}

// Gated.
const float* finish(const StepState& step, const MixerRows& rows_of, const cpu::Rows& rows, const Mamba& m) {
  const std::int64_t n = m.channels;
  float* const y = rows_of.states + rows.first * n;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      ops().gate[static_cast<std::size_t>(Activation::kSilu)](rows_of.z(rows) + r * n, y + r * n, y + r * n, n);
  });
  return y;
}

}  // namespace kvasir::model
