// The short convolution of LFM2 (model::ShortConv).
#include <algorithm>

#include "model/forward/mixers.hpp"

namespace kvasir::model {
namespace {

void multiply_rows(float* x, const float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= y[i];
}

}  // namespace

void widen(MixerWidths& w, const ShortConv& c) {
  widen(w, recurrent_shape(c));
  w.mixed = std::max(w.mixed, c.convolution.channels);
}

// b u to the channels, c to z.
void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const ShortConv& c) {
  const std::int64_t n = c.convolution.channels;
  float *const x = m.channels + rows.first * n, *const u = m.mixed + rows.first * n;
  step.multiply(rows, step.residual(rows), norm, {{c.b, x}, {c.u, u}, {c.c, m.z(rows)}});
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    multiply_rows(x + begin * n, u + begin * n, (end - begin) * n);
  });
}

const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const ShortConv& c) {
  const std::int64_t n = c.convolution.channels;
  float* const y = m.states + rows.first * n;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    multiply_rows(y + begin * n, m.z(rows) + begin * n, (end - begin) * n);
  });
  return y;
}

}  // namespace kvasir::model
