#include "model/forward/layer_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/apply_norm.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

}  // namespace

LayerInputRows::Scratch LayerInputRows::Scratch::place(ScratchPlan& plan) {
  for (const LayerSpec& layer : plan.spec.layers) plan.gates = std::max(plan.gates, layer.input.gate.rows);
  const std::int64_t width = plan.spec.embedding.layers.projection.rows;
  return {plan.rows(width), width, plan.placer.take<float>(plan.threads * width)};
}

LayerInputRows::LayerInputRows(StepState& step, const Scratch& scratch) : step_(step), s_(scratch) {
  ids_.reserve(static_cast<std::size_t>(s_.width > 0 ? step.max_tokens : 0));
}

void LayerInputRows::make(std::span<const Input> inputs) {
  const LayerInputs& e = step_.spec.embedding.layers;
  cpu::Rows all = step_.scratch.rows.whole(step_.rows);
  step_.multiply(all, step_.scratch.x, {}, {{e.projection, s_.rows}});
  const float root = 1.0f / std::sqrt(static_cast<float>(step_.spec.dim));
  ids_.clear();
  for (const Input& in : inputs) ids_.insert(ids_.end(), in.tokens.begin(), in.tokens.end());
  step_.team.parallel_for(step_.rows, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    float* const token = s_.tokens + worker * s_.width;
    for (std::int64_t r = begin; r < end; ++r) {
      float* const row = s_.rows + r * s_.width;
      ops().scale(row, root, s_.width);
      apply(e.norm, row, row, s_.width);
      e.tokens.row(ids_[static_cast<std::size_t>(r)], token);
      ops().scale(token, e.scale, s_.width);
      ops().add(row, token, s_.width);
      ops().scale(row, std::numbers::sqrt2_v<float> / 2, s_.width);
    }
  });
}

void LayerInputRows::multiply(cpu::Rows& rows, const LayerInput& in, int layer) const {
  const std::int64_t width = in.gate.rows;
  float* const hidden = step_.gates(rows);
  step_.multiply(rows, step_.residual(rows), {}, {{in.gate, hidden}});
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const h = hidden + r * width;
      const float* const e = s_.rows + (rows.first + r) * s_.width + layer * width;
      ops().gate[static_cast<std::size_t>(in.activation)](h, e, h, width);
    }
  });
  step_.multiply(rows, hidden, {}, {{in.out, rows.y}});
}

}  // namespace kvasir::model
