// model::Experts: router, shared expert, and those that the router chooses.
#include <algorithm>

#include "kernel/ops.hpp"
#include "model/forward/feed.hpp"
#include "model/forward/scalar.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

using cpu::Matrix;
using kernel::ops;

}  // namespace

ExpertFeed::Scratch ExpertFeed::Scratch::place(ScratchPlan& plan) {
  cpu::ExpertScratch::Widths widths{.dim = plan.spec.dim, .rounded = plan.spec.in_bf16};
  std::int64_t narrow = 0;
  for_each<Experts>(plan.spec, [&](const Experts& e) {
    widths.hidden = std::max(widths.hidden, e.down.columns);
    widths.experts = std::max(widths.experts, e.routing.count);
    widths.used = std::max(widths.used, e.routing.used);
    widths.dim = std::max(widths.dim, e.into.rows);
    narrow = std::max(narrow, e.into.rows);
  });
  plan.widths.input = std::max(plan.widths.input, narrow);
  return {plan.rows(narrow), plan.rows(narrow), plan.rows(narrow > 0 ? plan.spec.dim : 0),
          cpu::ExpertScratch::place(widths, plan.max_tokens, plan.placer)};
}

ExpertFeed::ExpertFeed(const StepState& step, LayerWeights& weights, const Scratch& scratch)
    : step_(step), weights_(weights), s_(scratch), products_(step.team, step.scratch.rows, s_.experts) {}

void ExpertFeed::run(cpu::Rows& rows, const Norm& norm, const Experts& e, int layer) {
  const std::int64_t dim = step_.spec.dim;
  prefetch(rows, layer + 1);
  prepare(rows, norm, e);
  if (e.shared.up) {
    step_.make_hidden(rows, e.shared);
    step_.products.multiply_hidden(rows, e.shared.down.bound, rows.y);
  }
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const logits = s_.experts.logits() + r * e.routing.count;
      if (e.router_scale != 1.0f) ops().scale(logits, e.router_scale, e.routing.count);
      if (e.router.bias) ops().add(logits, e.router.bias.bound, e.routing.count);
      float* const y = rows.y + r * dim;
      if (!e.shared.up) {
        std::fill_n(y, dim, 0.0f);
        continue;
      }
      if (e.shared.down.bias) ops().add(y, e.shared.down.bias.bound, dim);
      if (e.shared_gate) ops().scale(y, sigmoid(s_.experts.shared_weights()[r]), dim);
    }
    choose(e, begin, end);
  });
  add_chosen(rows, norm, e, layer);
}

// Which experts a layer will probably choose: its router reads what the layer before it does. Only to read them early.
void ExpertFeed::prefetch(cpu::Rows& rows, int layer) {
  constexpr int kMostRows = 8;  // more rows use most experts anyway
  if (layer >= step_.spec.layer_count() || rows.count > kMostRows) return;
  const LayerSpec& spec = step_.spec.layers[static_cast<std::size_t>(layer)];
  cpu::ExpertSource* const source = weights_.experts(layer);
  const auto* const e = std::get_if<Experts>(&spec.feed);
  if (!source || !e || !weights_.bound(layer, BundleKind::kFeed)) return;
  float* const logits = s_.experts.logits();
  step_.multiply(rows, step_.residual(rows), e->router_norm ? e->router_norm : spec.feed_norm, {{e->router, logits}});
  for (int r = 0; r < rows.count && e->router.bias; ++r)
    ops().add(logits + r * e->routing.count, e->router.bias.bound, e->routing.count);
  source->expect(products_.predict({0, rows.count}, e->routing, e->choice_bias.bound));
}

// Logits of the router, the shared expert's weights, and what experts read.
void ExpertFeed::prepare(cpu::Rows& rows, const Norm& norm, const Experts& e) {
  const float* const x = step_.residual(rows);
  if (e.router_norm) step_.multiply(rows, x, e.router_norm, {{e.router, s_.experts.logits()}});  // of rows of its own
  const Matrix* users[6] = {e.into ? &e.into.bound : &e.up.bound.first};
  const Matrix* matrices[2];
  float* outs[2];
  std::size_t count = 1, small = 0;
  const auto multiply = [&](const Linear& l, float* out) {
    users[count++] = matrices[small] = &l.bound;
    outs[small++] = out;
  };
  if (!e.router_norm) multiply(e.router, s_.experts.logits());
  if (e.shared_gate) multiply(e.shared_gate, s_.experts.shared_weights());
  if (e.gate && !e.into) users[count++] = &e.gate.bound.first;
  if (e.shared.up) users[count++] = &e.shared.up.bound;
  if (e.shared.gate) users[count++] = &e.shared.gate.bound;
  step_.prepare(rows, {users, count}, x, norm);
  if (small > 0) step_.products.multiply(rows, {matrices, small}, {outs, small});
  if (!e.into) return;
  const Matrix* const into[] = {&e.into.bound};
  float* const narrow[] = {s_.narrow};
  step_.products.multiply(rows, into, narrow);
}

// rows.y += what the chosen experts give.
void ExpertFeed::add_chosen(cpu::Rows& rows, const Norm& norm, const Experts& e, int layer) {
  const cpu::ExpertStacks stacks{e.activation,           e.gate ? &e.gate.bound : nullptr,
                                 e.gate.bias.bound,      e.up.bound,
                                 e.up.bias.bound,        e.down.bound,
                                 e.down.bias.bound,      e.weigh_inputs,
                                 weights_.experts(layer)};
  if (!e.into) return products_.add(rows, norm ? rows.normed : step_.residual(rows), stacks, e.routing);
  const std::int64_t width = e.into.rows, dim = step_.spec.dim;
  if (e.into.bias)
    for (int r = 0; r < rows.count; ++r) ops().add(s_.narrow + r * width, e.into.bias.bound, width);
  std::fill_n(s_.narrow_y, rows.count * width, 0.0f);
  const Matrix* const users[] = {&e.up.bound.first, e.gate ? &e.gate.bound.first : nullptr};
  cpu::Rows inner = rows;
  inner.y = s_.narrow_y;
  step_.prepare(inner, {users, e.gate ? 2u : 1u}, s_.narrow, {});
  products_.add(inner, s_.narrow, stacks, e.routing);
  step_.multiply(rows, s_.narrow_y, {}, {{e.out, s_.widened}});
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (e.out.bias) ops().add(s_.widened + r * dim, e.out.bias.bound, dim);
      ops().add(rows.y + r * dim, s_.widened + r * dim, dim);
    }
  });
}

void ExpertFeed::choose(const Experts& e, std::int64_t begin, std::int64_t end) const {
  if (!hooks_.scores && !hooks_.bias && !hooks_.chosen)
    return products_.choose({begin, end}, e.routing, e.choice_bias.bound, e.weight_scales.bound);
  for (std::int64_t r = begin; r < end; ++r) {
    if (hooks_.scores) hooks_.scores(e, r, s_.experts.logits() + r * e.routing.count);
    const float* const own = hooks_.bias ? hooks_.bias(e, r) : nullptr;
    products_.choose({r, r + 1}, e.routing, own ? own : e.choice_bias.bound, e.weight_scales.bound);
    if (hooks_.chosen) hooks_.chosen(e, r, products_.chosen(r, e.routing));
  }
}

}  // namespace kvasir::model
