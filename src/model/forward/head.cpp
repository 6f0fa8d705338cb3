#include "model/forward/head.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  KVASIR_CHECK(row >= 0 && row < step_.rows);
  const float* const x = step_.scratch.x + row * step_.spec.dim;
  const Norm& norm = step_.spec.head.norm;
  norm ? apply(norm, x, out, step_.spec.dim) : void(std::copy_n(x, step_.spec.dim, out));
}

void OutputHead::next(int row, float* out) const {
  const Head& head = step_.spec.head;
  KVASIR_CHECK(head.next && row >= 0 && row < step_.rows);
  cpu::Rows rows = step_.scratch.rows.whole(1);
  step_.multiply(rows, step_.scratch.x + row * step_.spec.dim, head.norm, {{head.next, out}});
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

// Of one row: TokenGroups. Few rows of the output matrix are read, each as floats.
void OutputHead::multiply_chosen(const float* x, float* logits) const {
  const Head& head = step_.spec.head;
  const TokenGroups& groups = head.groups;
  const std::int64_t dim = step_.spec.dim, size = step_.spec.vocab / groups.centroids.rows;
  std::vector<float> scores(static_cast<std::size_t>(groups.centroids.rows));
  cpu::Rows rows = step_.scratch.rows.whole(1);
  step_.multiply(rows, x, head.norm, {{groups.centroids, scores.data()}});
  std::vector<std::int64_t> chosen(scores.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  std::partial_sort(chosen.begin(), chosen.begin() + groups.used, chosen.end(), [&](std::int64_t a, std::int64_t b) {
    const float of_a = scores[static_cast<std::size_t>(a)], of_b = scores[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  std::vector<float> state(static_cast<std::size_t>(dim)), products(static_cast<std::size_t>(groups.used * size));
  apply(head.norm, x, state.data(), dim);
  const auto token = [&](std::int64_t i) {
    const std::int64_t of = chosen[static_cast<std::size_t>(i / size)] * size + i % size;
    return static_cast<std::int64_t>(groups.order.bound[of]);
  };
  step_.team.parallel_for(groups.used * size, 64, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> row(static_cast<std::size_t>(dim));
    for (std::int64_t i = begin; i < end; ++i) {
      head.output.bound.unpack_row(token(i), row.data());
      float sums[4] = {};
      for (std::int64_t c = 0; c < dim; ++c)
        sums[c % 4] += row[static_cast<std::size_t>(c)] * state[static_cast<std::size_t>(c)];
      products[static_cast<std::size_t>(i)] = sums[0] + sums[1] + sums[2] + sums[3];
    }
  });
  std::fill_n(logits, step_.spec.vocab, *std::min_element(products.begin(), products.end()) - 1.0f);
  for (std::int64_t i = 0; i < groups.used * size; ++i) logits[token(i)] = products[static_cast<std::size_t>(i)];
}

std::span<const float> OutputHead::multiply(const float* x, int count, const float* const* scales) const {
  const Head& head = step_.spec.head;
  const std::int64_t vocab = step_.spec.vocab;
  KVASIR_CHECK(count == 0 || head.output);
  if (head.groups) {
    for (int r = 0; r < count; ++r) multiply_chosen(x + r * step_.spec.dim, logits_ + r * vocab);
  } else if (count > 0) {
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
