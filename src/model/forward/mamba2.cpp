// Mamba-2 (model::Mamba2).
#include <algorithm>
#include <cmath>

#include "kernel/ops.hpp"
#include "model/apply_norm.hpp"
#include "model/forward/mixers.hpp"
#include "model/forward/scalar.hpp"

namespace kvasir::model {

void widen(MixerWidths& w, const Mamba2& b) {
  widen(w, recurrent_shape(b));
  w.mixed = std::max<std::int64_t>(w.mixed, b.heads);
}

// v, k and q to the channels; decays and steps of time to the steps; z.
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const Mamba2& b) {
  const std::int64_t heads = b.heads;
  float* const dt = m.mixed + rows.first * heads;
  step.multiply(rows, step.residual(rows), norm,
                {{b.x, m.channels + rows.first * b.convolution.channels}, {b.z, m.z(rows)}, {b.dt, dt}});
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* const decays = m.steps + (rows.first + row) * 2 * heads;
      for (std::int64_t h = 0; h < heads; ++h) {
        const float time = softplus(dt[row * heads + h] + b.bias.bound[h]);
        decays[h] = std::exp(time * b.decay.bound[h]);
        decays[heads + h] = time;
      }
    }
  });
}

// Gated, then normed.
const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const Mamba2& b) {
  const std::int64_t n = std::int64_t{b.heads} * b.head_dim;
  float* const y = m.states + rows.first * n;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const row = y + r * n;
      kernel::ops().gate[static_cast<std::size_t>(Activation::kSilu)](m.z(rows) + r * n, row, row, n);
      if (b.norm) apply(b.norm, row, row, n);
    }
  });
  return y;
}

}  // namespace kvasir::model
