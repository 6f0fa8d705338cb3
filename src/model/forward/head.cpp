#include "model/forward/head.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kernel/ops.hpp"
#include "model/adapters.hpp"
#include "model/apply_norm.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

}  // namespace

float* OutputHead::place(ScratchPlan& plan) {
  for (const Projection& p : plan.spec.projections) plan.widths.input = std::max(plan.widths.input, p.linear.columns);
  const std::int64_t rows = plan.spec.head.output ? std::max(1, plan.max_logits) : 0;
  return plan.placer.take<float>(rows * plan.spec.vocab);
}

std::span<const float> OutputHead::logits(std::span<const Input> inputs) const {
  const std::int64_t dim = step_.spec.dim;
  float* const gathered = step_.scratch.rows.whole(1).y;
  int count = 0;
  std::vector<const float*> scales;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t end = step_.slices[i].row + step_.slices[i].count, wanted = inputs[i].logits;
    std::copy_n(step_.scratch.x + (end - wanted) * dim, wanted * dim, gathered + count * dim);
    count += inputs[i].logits;
    if (step_.adapted())
      scales.resize(static_cast<std::size_t>(count), step_.scales[static_cast<std::size_t>(end - 1)]);
  }
  return multiply(gathered, count, step_.adapted() ? scales.data() : nullptr);
}

void OutputHead::state(int row, float* out) const {
  const float* const x = step_.scratch.x + row * step_.spec.dim;
  const Norm& norm = step_.spec.head.norm;
  norm ? apply(norm, x, out, step_.spec.dim) : void(std::copy_n(x, step_.spec.dim, out));
}

std::vector<float> OutputHead::rank(std::span<const float> state) const {
  const Rank& rank = step_.spec.rank;
  KVASIR_CHECK(rank && static_cast<std::int64_t>(state.size()) == step_.spec.dim);
  std::vector<float> x(state.begin(), state.end());
  if (rank.dense) {
    x = multiply_one(rank.dense, x);
    if (rank.act == Rank::Act::kTanh)
      for (float& v : x) v = std::tanh(v);
    else
      ops().activate[static_cast<std::size_t>(rank.act == Rank::Act::kGelu ? Activation::kGeluErf : Activation::kRelu)](
          x.data(), step_.spec.dim);
    if (rank.norm) apply(rank.norm, x.data(), x.data(), step_.spec.dim);
  }
  return multiply_one(rank.output, x);
}

std::vector<float> OutputHead::vector_of(std::vector<float> pooled) const {
  for (const Projection& p : step_.spec.projections) {
    pooled = multiply_one(p.linear, pooled);
    for (float& v : pooled)
      if (p.tanh) v = std::tanh(v);
  }
  return pooled;
}

// Of one row, with the bias, and with the adapters as the model has them.
std::vector<float> OutputHead::multiply_one(const Linear& l, const std::vector<float>& x) const {
  std::vector<float> y(static_cast<std::size_t>(l.rows));
  cpu::Rows rows = step_.scratch.rows.whole(1);
  const float* const scales = step_.spec.adapters ? step_.spec.adapters->scales().data() : nullptr;
  rows.scales = scales ? &scales : nullptr;
  step_.multiply(rows, x.data(), {}, {{l, y.data()}});
  if (l.bias) ops().add(y.data(), l.bias.bound, l.rows);
  return y;
}

std::span<const float> OutputHead::multiply(const float* x, int count, const float* const* scales) const {
  const Head& head = step_.spec.head;
  const std::int64_t vocab = step_.spec.vocab;
  KVASIR_CHECK(count == 0 || head.output);
  if (count > 0) {
    cpu::Rows rows = step_.scratch.rows.whole(count);
    rows.scales = scales;
    step_.multiply(rows, x, head.norm, {{head.output, logits_}});
    const bool plain = !head.output.bias && head.scale == 1.0f && head.soft_cap == 0.0f;
    for (int r = 0; r < count && !plain; ++r) {
      float* const row = logits_ + r * vocab;
      if (head.output.bias) ops().add(row, head.output.bias.bound, vocab);
      if (head.scale != 1.0f) ops().scale(row, head.scale, vocab);
      if (head.soft_cap > 0.0f) ops().soft_cap(row, head.soft_cap, vocab);
    }
  }
  return {logits_, static_cast<std::size_t>(count * vocab)};
}

}  // namespace kvasir::model
