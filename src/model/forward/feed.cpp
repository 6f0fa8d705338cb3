#include "model/forward/feed.hpp"

#include <algorithm>

#include "kernel/ops.hpp"
#include "model/apply_norm.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

const Vector kNoBias = {};

}  // namespace

FeedForward::Scratch FeedForward::Scratch::place(ScratchPlan& plan) {
  std::int64_t dense = 0;
  for_each<Dense>(plan.spec,
                  [&](const Dense& d) { plan.widths.hidden = std::max(plan.widths.hidden, d.down.columns); });
  for_each<DenseAndExperts>(plan.spec, [&](const DenseAndExperts&) { dense = plan.spec.dim; });
  return {plan.rows(dense), ExpertFeed::Scratch::place(plan)};
}

void FeedForward::make_hidden(cpu::Rows& rows, const Norm& norm, const Dense& dense) const {
  const cpu::Matrix* const users[] = {&dense.up.bound, &dense.gate.bound};
  step_.prepare(rows, {users, dense.gate ? 2u : 1u}, step_.residual(rows), norm);
  step_.make_hidden(rows, dense);
}

void FeedForward::begin(cpu::Rows& rows, const LayerSpec& layer) const {
  if (const auto* const dense = std::get_if<Dense>(&layer.feed)) make_hidden(rows, layer.feed_norm, *dense);
}

const Vector& FeedForward::finish(cpu::Rows& rows, int layer) {
  const LayerSpec& spec = step_.spec.layers[static_cast<std::size_t>(layer)];
  if (const auto* const dense = std::get_if<Dense>(&spec.feed)) {
    step_.products.multiply_hidden(rows, dense->down.bound, rows.y);
    return dense->down.bias;
  }
  if (const auto* const experts = std::get_if<Experts>(&spec.feed)) experts_.run(rows, spec.feed_norm, *experts, layer);
  if (const auto* const both = std::get_if<DenseAndExperts>(&spec.feed)) run_both(rows, spec.feed_norm, *both, layer);
  return kNoBias;
}

void FeedForward::run_both(cpu::Rows& rows, const Norm& norm, const DenseAndExperts& both, int layer) {
  make_hidden(rows, norm, both.dense);
  step_.products.multiply_hidden(rows, both.dense.down.bound, dense_);
  experts_.run(rows, both.experts_norm, both.experts, layer);
  const std::int64_t dim = step_.spec.dim;
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float *const y = rows.y + r * dim, *const dense = dense_ + r * dim;
      if (both.dense.down.bias) kernel::ops().add(dense, both.dense.down.bias.bound, dim);
      if (both.dense_post) apply(both.dense_post, dense, dense, dim);
      if (both.experts_post) apply(both.experts_post, y, y, dim);
      kernel::ops().add(y, dense, dim);
    }
  });
}

}  // namespace kvasir::model
