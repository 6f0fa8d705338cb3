// A norm of a specification at work.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernel/ops.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

// out = x * w, made no longer than `most`.
inline void clip_length(const float* x, const float* w, float* out, std::int64_t n, float most) {
  double squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = x[i] * w[i];
    squares += static_cast<double>(out[i]) * static_cast<double>(out[i]);
  }
  const double factor = static_cast<double>(most) / (std::sqrt(squares) + 1e-6);
  if (factor < 1.0) kernel::ops().scale(out, static_cast<float>(factor), n);
}

// One row of x to out, part by part; in place allowed.
inline void apply(const Norm& n, const float* x, float* out, std::int64_t width) {
  const std::int64_t repeat = n.weight ? n.weight.rows * n.weight.columns : n.width;
  for (std::int64_t i = 0; i < width; i += n.width) {
    const float* const w = n.weight.bound + i % repeat;
    if (n.kind == NormKind::kClip)
      clip_length(x + i, w, out + i, n.width, n.eps);
    else if (n.kind == NormKind::kRms)
      kernel::ops().rms_norm(x + i, w, out + i, n.width, n.eps);
    else
      kernel::ops().layer_norm(x + i, w, n.bias ? n.bias.bound + i % repeat : nullptr, out + i, n.width, n.eps);
  }
}

}  // namespace kvasir::model
