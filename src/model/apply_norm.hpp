// A norm of a specification at work.
#pragma once

#include <cstdint>

#include "kernel/ops.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

// One row of x to out, part by part; in place allowed.
inline void apply(const Norm& n, const float* x, float* out, std::int64_t width) {
  const std::int64_t repeat = n.weight ? n.weight.rows * n.weight.columns : n.width;
  for (std::int64_t i = 0; i < width; i += n.width) {
    const float* const w = n.weight.bound + i % repeat;
    if (n.kind == NormKind::kRms)
      kernel::ops().rms_norm(x + i, w, out + i, n.width, n.eps);
    else
      kernel::ops().layer_norm(x + i, w, n.bias ? n.bias.bound + i % repeat : nullptr, out + i, n.width, n.eps);
  }
}

}  // namespace kvasir::model
