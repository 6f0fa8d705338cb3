#include "model/forward/streams.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kernel/ops.hpp"
#include "model/apply_norm.hpp"
#include "model/forward/scalar.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

// sign(x) sqrt(|x|), which is no nearer to 0 than the root of 1e-6 unless x is 0.
float signed_root(float x) { return x == 0.0f ? 0.0f : std::copysign(std::sqrt(std::max(std::abs(x), 1e-6f)), x); }

}  // namespace

Streams::Scratch Streams::Scratch::place(ScratchPlan& plan) {
  std::int64_t width = 0, rank = 0, count = 0, before = 0, e = 0;
  for_each<StreamMixer>(plan.spec, [&](const StreamMixer& m) {
    width = std::max(width, m.up.rows);
    rank = std::max(rank, m.down.rows);
    count = std::max<std::int64_t>(count, m.count);
  });
  for_each<Ngrams>(plan.spec, [&](const Ngrams& g) {
    before = std::max<std::int64_t>(before, g.longest - 1);
    e = std::max(e, g.width());
  });
  plan.widths.input = std::max({plan.widths.input, width, rank, e});
  Scratch s{};
  s.x = plan.rows(width);
  s.normed = plan.rows(width);
  s.wide = plan.rows(width);
  s.low = plan.rows(rank);
  s.shares = plan.rows(count);
  s.ids = plan.rows(before);
  s.rows = plan.rows(e);
  s.value = plan.rows(e > 0 ? plan.spec.dim : 0);
  return s;
}

Streams::Streams(const StepState& step, const Scratch& scratch) : step_(step), s_(scratch) {
  for_each<Ngrams>(step.spec, [&](const Ngrams&) { ids_.reserve(static_cast<std::size_t>(step.max_tokens)); });
}

void Streams::begin(std::span<const Input> inputs) {
  const std::int64_t dim = step_.spec.dim, count = step_.spec.head.streams.count;
  step_.team.parallel_for(step_.rows, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < count; ++c)
        std::copy_n(step_.scratch.x + r * dim, dim, s_.x + (r * count + c) * dim);
  });
  if (ids_.capacity() == 0) return;
  ids_.clear();
  for (const Input& in : inputs) ids_.insert(ids_.end(), in.tokens.begin(), in.tokens.end());
}

void Streams::read(cpu::Rows& rows, const StreamMixer& mixer) const {
  KVASIR_CHECK(rows.worker < 0 && rows.first == 0);
  const std::int64_t dim = step_.spec.dim, count = mixer.count, width = count * dim, rank = mixer.down.rows;
  const float part = 1.0f / static_cast<float>(count);
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) apply(mixer.norm, s_.x + r * width, s_.normed + r * width, width);
  });
  step_.multiply(rows, s_.normed, {}, {{mixer.down, s_.low}, {mixer.inject, s_.shares}});
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    float* const low = s_.low + begin * rank;
    ops().scale(low, part, (end - begin) * rank);
    ops().activate[static_cast<std::size_t>(Activation::kSilu)](low, (end - begin) * rank);
    for (std::int64_t i = begin * count; mixer.inject && i < end * count; ++i)
      s_.shares[i] = 2.0f * sigmoid(s_.shares[i] * part);
  });
  step_.multiply(rows, s_.low, {}, {{mixer.up, s_.wide}});
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = (end - begin) * width;
    ops().gate[static_cast<std::size_t>(Activation::kSigmoid)](s_.wide + begin * width, s_.normed + begin * width,
                                                               s_.wide + begin * width, n);
    for (std::int64_t r = begin; r < end; ++r) {
      float* const x = step_.scratch.x + r * dim;
      std::copy_n(s_.wide + r * width, dim, x);
      for (std::int64_t c = 1; c < count; ++c) ops().add(x, s_.wide + r * width + c * dim, dim);
      ops().scale(x, part, dim);
    }
  });
}

void Streams::add(const cpu::Rows& rows, const StreamMixer& mixer) const {
  const std::int64_t dim = step_.spec.dim, count = mixer.count;
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t c = 0; c < count; ++c) {
        float* const x = s_.x + (r * count + c) * dim;
        const float* const y = rows.y + r * dim;
        const float share = s_.shares[r * count + c];
        for (std::int64_t i = 0; i < dim; ++i) x[i] += share * y[i];
      }
  });
}

// An id is a float in the state that the cache keeps of a text: 1 more than it is, because 0 is what stands before a
// text. All are below 2^24 (the architecture sees to it), so nothing is rounded.
void Streams::look_up(const cpu::Rows& rows, const MixerRows& m, const Ngrams& g) const {
  const std::int64_t before = g.longest - 1;
  for (int r = 0; r < rows.count; ++r)
    std::fill_n(s_.ids + r * before, before, static_cast<float>(ids_[static_cast<std::size_t>(r)]) + 1.0f);
  smooth(step_, m, g.ids, s_.ids);
  // A row of the table is a page fault where it has not been read yet: by all threads.
  step_.team.parallel_for(rows.count, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) look_up_row(r, g);
  });
}

void Streams::look_up_row(std::int64_t row, const Ngrams& g) const {
  const float* const before = s_.ids + row * (g.longest - 1);
  float* out = s_.rows + row * g.width();
  std::int64_t id = ids_[static_cast<std::size_t>(row)];
  KVASIR_CHECK(id >= 0);
  auto mixed = static_cast<std::uint64_t>(id) * static_cast<std::uint64_t>(g.multipliers[0]);
  bool ended = false;
  for (int n = 2, head = 0; n <= g.longest; ++n) {
    id = static_cast<std::int64_t>(before[n - 2]) - 1;
    ended = ended || id < 0 || id == g.end;
    if (ended) id = g.end;
    mixed ^=
        static_cast<std::uint64_t>(id) * static_cast<std::uint64_t>(g.multipliers[static_cast<std::size_t>(n - 1)]);
    for (int h = 0; h < g.heads; ++h, ++head, out += g.table.columns) {
      const auto at = static_cast<std::size_t>(head);
      g.table.row(g.offsets[at] + static_cast<std::int64_t>(mixed % static_cast<std::uint64_t>(g.sizes[at])), out);
    }
  }
}

// What every stream lets through of the value: to `wide`, and normed to `normed`.
void Streams::gate(std::int64_t row, const Ngrams& g) const {
  const std::int64_t dim = step_.spec.dim, count = step_.spec.head.streams.count, width = count * dim;
  float *const keys = s_.wide + row * width, *const queries = s_.normed + row * width;
  const float* const value = s_.value + row * dim;
  apply(g.key_norm, keys, keys, width);
  apply(g.query_norm, s_.x + row * width, queries, width);
  for (std::int64_t c = 0; c < count; ++c) {
    float* const k = keys + c * dim;
    double dot = 0;
    for (std::int64_t i = 0; i < dim; ++i) dot += static_cast<double>(k[i]) * static_cast<double>(queries[c * dim + i]);
    const float share = sigmoid(signed_root(static_cast<float>(dot / std::sqrt(static_cast<double>(dim)))));
    for (std::int64_t i = 0; i < dim; ++i) k[i] = share * value[i];
  }
  apply(g.conv_norm, keys, queries, width);
}

void Streams::add_ngrams(cpu::Rows& rows, const MixerRows& m, const Ngrams& g) const {
  KVASIR_CHECK(rows.worker < 0 && rows.first == 0);
  const std::int64_t width = step_.spec.head.streams.count * std::int64_t{step_.spec.dim};
  look_up(rows, m, g);
  step_.multiply(rows, s_.rows, {}, {{g.key, s_.wide}, {g.value, s_.value}});
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) gate(r, g);
    ops().add(s_.x + begin * width, s_.wide + begin * width, (end - begin) * width);
  });
  smooth(step_, m, g.convolution, s_.normed);
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    ops().add(s_.x + begin * width, s_.normed + begin * width, (end - begin) * width);
  });
}

}  // namespace kvasir::model
