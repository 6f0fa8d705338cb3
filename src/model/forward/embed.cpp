#include "model/forward/embed.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.hpp"
#include "model/apply_norm.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

}  // namespace

Embedder::Scratch Embedder::Scratch::place(ScratchPlan& plan) {
  const Embedding& e = plan.spec.embedding;
  const std::int64_t joined = e.given ? e.given.columns : e.join.both.columns;
  const std::int64_t inputs = plan.spec.embedding.layers.projection.rows;
  plan.widths.input = std::max(plan.widths.input, joined);
  for (const LayerSpec& layer : plan.spec.layers) plan.gates = std::max(plan.gates, layer.input.gate.rows);
  return {plan.rows(joined), plan.rows(inputs), plan.placer.take<float>(plan.threads * inputs), inputs,
          plan.rows(plan.spec.embedding.second ? plan.spec.dim : 0)};
}

Embedder::Embedder(StepState& step, const Scratch& scratch) : step_(step), s_(scratch) {
  deep_.reserve(static_cast<std::size_t>(step.spec.deep > 0 ? step.max_tokens : 0));
  ids_.reserve(static_cast<std::size_t>(s_.input_width > 0 ? step.max_tokens : 0));
}

void Embedder::row(std::int32_t token, float* out) const {
  KVASIR_CHECK(token >= 0 && token < step_.spec.vocab);
  const Embedding& e = step_.spec.embedding;
  e.tokens.row(token, out);
  if (e.scale != 1.0f) ops().scale(out, e.scale, step_.spec.dim);
}

void Embedder::embed(std::span<const Input> inputs) {
  const Embedding& e = step_.spec.embedding;
  const std::int64_t dim = step_.spec.dim;
  float* const added = step_.scratch.rows.whole(1).y;
  deep_.clear();
  std::int64_t row_at = 0;
  for (const Input& in : inputs)
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(in.tokens.size()); ++i, ++row_at) {
      const std::int32_t id = in.tokens[static_cast<std::size_t>(i)];
      float* const x = step_.scratch.x + row_at * dim;
      if (id < 0) {
        const std::int64_t position = step_.positions[static_cast<std::size_t>(row_at)];
        const RowRun& run = run_at(in.runs, position);
        std::copy_n(run.block->row(position - run.begin), dim, x);
        if (run.block->deep() > 0) deep_.push_back({row_at, run.block.get(), position - run.begin});
      } else {
        row(id, x);
      }
      if (e.positions) {
        const std::int64_t position = step_.positions[static_cast<std::size_t>(row_at)];
        KVASIR_CHECK(position < e.positions.rows);
        e.positions.row(position, added);
        ops().add(x, added, dim);
      }
      if (e.types) {
        const bool second = in.second >= 0 && i >= in.second;
        e.types.row(second && e.types.rows > 1 ? 1 : 0, added);
        ops().add(x, added, dim);
      }
      if (e.norm) apply(e.norm, x, x, dim);
      if (e.second) std::copy_n(e.second.bound, dim, s_.second + row_at * dim);
    }
}

void Embedder::take_given(std::span<const Input> inputs) {
  const Linear& given = step_.spec.embedding.given;
  float* to = s_.joined;
  for (const Input& in : inputs) {
    KVASIR_CHECK(in.states);
    to = std::copy_n(in.states, static_cast<std::int64_t>(in.tokens.size()) * given.columns, to);
  }
  cpu::Rows rows = step_.whole();
  step_.multiply(rows, s_.joined, {}, {{given, step_.scratch.x}});
}

void Embedder::join(std::span<const Input> inputs) {
  const Join& j = step_.spec.embedding.join;
  const std::int64_t dim = step_.spec.dim;
  std::int64_t first = 0;
  for (const Input& in : inputs) {
    KVASIR_CHECK(in.states);
    const auto count = static_cast<std::int64_t>(in.tokens.size());
    step_.team.parallel_for(count, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* const joined = s_.joined + (first + i) * 2 * dim;
        apply(j.norm, step_.scratch.x + (first + i) * dim, joined, dim);
        apply(j.state_norm, in.states + i * dim, joined + dim, dim);
      }
    });
    first += count;
  }
  cpu::Rows rows = step_.whole();
  step_.multiply(rows, s_.joined, {}, {{j.both, step_.scratch.x}});
}

// What layers read of rows that stand in place of tokens, whose ids are below 0: a row of the padding token, which is
// the first one in all published models. Files do not say it: tokenizers may well pad with another one.
constexpr std::int32_t kPadOfRows = 0;

void Embedder::make_inputs(std::span<const Input> inputs) {
  const LayerInputs& e = step_.spec.embedding.layers;
  cpu::Rows all = step_.whole();
  step_.multiply(all, step_.scratch.x, {}, {{e.projection, s_.inputs}});
  const float root = 1.0f / std::sqrt(static_cast<float>(step_.spec.dim));
  ids_.clear();
  for (const Input& in : inputs) ids_.insert(ids_.end(), in.tokens.begin(), in.tokens.end());
  step_.team.parallel_for(step_.rows, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    float* const token = s_.token_inputs + worker * s_.input_width;
    for (std::int64_t r = begin; r < end; ++r) {
      float* const row = s_.inputs + r * s_.input_width;
      ops().scale(row, root, s_.input_width);
      apply(e.norm, row, row, s_.input_width);
      if (!e.tokens) continue;
      const std::int32_t id = ids_[static_cast<std::size_t>(r)];
      e.tokens.row(id < 0 ? kPadOfRows : id, token);
      ops().scale(token, e.scale, s_.input_width);
      ops().add(row, token, s_.input_width);
      ops().scale(row, std::numbers::sqrt2_v<float> / 2, s_.input_width);
    }
  });
}

void Embedder::multiply_input(cpu::Rows& rows, const LayerInput& in, int layer) const {
  const std::int64_t width = in.gate.rows;
  float* const hidden = step_.gates(rows);
  step_.multiply(rows, step_.residual(rows), {}, {{in.gate, hidden}});
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const h = hidden + r * width;
      const float* const e = s_.inputs + (rows.first + r) * s_.input_width + layer * width;
      ops().gate[static_cast<std::size_t>(in.activation)](h, e, h, width);
    }
  });
  step_.multiply(rows, hidden, {}, {{in.out, rows.y}});
}

void Embedder::add_second(const cpu::Rows& rows, Second second) const {
  const std::int64_t dim = step_.spec.dim;
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = (end - begin) * dim;
    float* const x = step_.residual(rows) + begin * dim;
    float* const y = s_.second + (rows.first + begin) * dim;
    if (second == Second::kSwapped) std::swap_ranges(x, x + n, y);
    ops().add(x, y, n);
  });
}

void Embedder::add_deep(const cpu::Rows& rows, int layer) const {
  const auto before = [](const DeepRow& d, std::int64_t row) { return d.row < row; };
  for (auto d = std::lower_bound(deep_.begin(), deep_.end(), rows.first, before);
       d != deep_.end() && d->row < rows.first + rows.count; ++d)
    if (layer < d->block->deep())
      ops().add(step_.scratch.x + d->row * step_.spec.dim, d->block->deep_row(layer, d->i), step_.spec.dim);
}

}  // namespace kvasir::model
