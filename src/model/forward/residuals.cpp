#include "model/forward/residuals.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

constexpr float kMixtureEps = 1e-6f;  // of the norms of states, whatever the model's other norms have

// In lanes of a fixed number, so that it has the same bits everywhere.
float dot(const float* a, const float* b, std::int64_t n) {
  constexpr int kLanes = 16;
  std::array<float, kLanes> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) sums[static_cast<std::size_t>(j)] += a[i + j] * b[i + j];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  float all = 0;
  for (const float s : sums) all += s;
  return all;
}

// 1 / the root of the mean square.
float inverse_size(const float* x, std::int64_t n, float eps) {
  return 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
}

}  // namespace

// `count` blocks, `pitch` floats apart, and one more.
struct ResidualStates::States {
  const float* blocks;
  const float* x;
  int count;
  std::int64_t pitch, dim;

  const float* state(int i, std::int64_t row) const { return (i < count ? blocks + i * pitch : x) + row * dim; }

  // out (dim), of one row: what Residuals calls mixture(query).
  void mix(std::int64_t row, const float* query, float* out) const {
    std::array<float, kMostStates> weights, sizes;
    float most = -INFINITY, sum = 0;
    const auto n = static_cast<std::size_t>(count) + 1;
    for (std::size_t i = 0; i < n; ++i) {
      const float* const s = state(static_cast<int>(i), row);
      sizes[i] = inverse_size(s, dim, kMixtureEps);
      weights[i] = dot(query, s, dim) * sizes[i] / std::sqrt(static_cast<float>(dim));
      most = std::max(most, weights[i]);
    }
    for (std::size_t i = 0; i < n; ++i) sum += weights[i] = std::exp(weights[i] - most);
    for (std::size_t i = 0; i < n; ++i) {
      const float* const s = state(static_cast<int>(i), row);
      const float factor = weights[i] / sum * sizes[i];
      if (i == 0)
        for (std::int64_t c = 0; c < dim; ++c) out[c] = factor * s[c];
      else
        for (std::int64_t c = 0; c < dim; ++c) out[c] += factor * s[c];
    }
  }
};

ResidualStates::Scratch ResidualStates::Scratch::place(ScratchPlan& plan) {
  std::int64_t blocks = 0, kept = 0, rank = 0, dim = 0;
  for (const LayerSpec& layer : plan.spec.layers) {
    const Residuals& r = layer.residuals;
    if (!r) continue;
    dim = plan.spec.dim;
    KVASIR_CHECK(r.count < kMostStates - 1);
    blocks = std::max<std::int64_t>(blocks, r.count + (r.ends ? 1 : 0));
    if (!r.hears) continue;
    kept = std::max<std::int64_t>(kept, r.kept + 1);
    rank = std::max(rank, r.q_gate.down.rows);
  }
  const std::int64_t hears = kept > 0 ? dim : 0;
  plan.widths.input = std::max(plan.widths.input, 2 * hears);
  Scratch s{};
  s.blocks = plan.rows(blocks * dim);
  s.kept = plan.rows(kept * dim);
  s.q = plan.rows(dim);
  s.k = plan.rows(dim);
  s.v = plan.rows(dim);
  s.own = plan.rows(dim);
  s.message = plan.rows(hears);
  s.pair = plan.rows(2 * hears);
  s.low = plan.rows(rank);
  s.forget = plan.rows(hears);
  s.gain = plan.rows(hears);
  return s;
}

ResidualStates::States ResidualStates::now(int count) const {
  const std::int64_t dim = step_.spec.dim;
  return {s_.blocks, step_.scratch.x, count, step_.max_tokens * dim, dim};
}

// What the pass before left is kept, and x begins as that pass did: it was the first state that it made.
void ResidualStates::begin_pass(const cpu::Rows& rows, const Residuals& r) const {
  const std::int64_t dim = step_.spec.dim, pitch = step_.max_tokens * dim;
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * dim, n = (end - begin) * dim;
    for (int i = 0; i < r.kept; ++i)
      std::copy_n(s_.blocks + (r.count + 1 + i) * pitch + at, n, s_.kept + i * pitch + at);
    std::copy_n(step_.scratch.x + at, n, s_.kept + r.kept * pitch + at);
    std::copy_n(s_.blocks + r.count * pitch + at, n, step_.scratch.x + at);
  });
}

ResidualStates::Read ResidualStates::read(cpu::Rows& rows, const Residuals& r) const {
  KVASIR_CHECK(rows.worker < 0 && rows.first == 0);
  if (r.again) begin_pass(rows, r);
  if (!r.mixer) return {step_.scratch.x, step_.scratch.x, step_.scratch.x};
  const std::int64_t dim = step_.spec.dim;
  const bool three = r.mixer.rows == 3;
  const States states = now(r.count);
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      states.mix(row, r.mixer.bound, s_.q + row * dim);
      if (!three) continue;
      states.mix(row, r.mixer.bound + dim, s_.k + row * dim);
      states.mix(row, r.mixer.bound + 2 * dim, s_.v + row * dim);
    }
  });
  if (!r.hears) return {s_.q, three ? s_.k : s_.q, three ? s_.v : s_.q};
  const float* const kv = r.kv_messages.bound + 2 * r.place * dim;
  hear(rows, r, r.k_gate, kv, three ? s_.k : s_.q, s_.k);
  hear(rows, r, r.v_gate, kv + dim, three ? s_.v : s_.q, s_.v);
  hear(rows, r, r.q_gate, r.messages.bound + 2 * r.place * dim, s_.q, s_.q);
  return {s_.q, s_.k, s_.v};
}

// out = x through the gate, with the message that `query` finds; in place allowed.
void ResidualStates::hear(cpu::Rows& rows, const Residuals& r, const MessageGate& gate, const float* query,
                          const float* x, float* out) const {
  const std::int64_t dim = step_.spec.dim, pitch = step_.max_tokens * dim;
  const States states{s_.kept, s_.kept + r.kept * pitch, r.kept, pitch, dim};
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float *const message = s_.message + row * dim, *const pair = s_.pair + 2 * row * dim;
      states.mix(row, query, message);
      const float* const parts[] = {x + row * dim, message};
      for (int part = 0; part < 2; ++part) {
        std::copy_n(parts[part], dim, pair + part * dim);
        ops().scale(pair + part * dim, inverse_size(parts[part], dim, gate.eps), dim);
      }
    }
  });
  step_.multiply(rows, s_.pair, {}, {{gate.down, s_.low}});
  step_.multiply(rows, s_.low, {}, {{gate.forget, s_.forget}, {gate.gain, s_.gain}});
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * dim; i < end * dim; ++i)
      out[i] = (1.0f - std::tanh(s_.forget[i])) * x[i] + std::tanh(s_.gain[i]) * s_.message[i];
  });
}

void ResidualStates::take_mixed(cpu::Rows& rows, const Residuals& r) const {
  const std::int64_t dim = step_.spec.dim, pitch = step_.max_tokens * dim;
  float* const x = step_.scratch.x;
  const States states = now(r.count + (r.ends ? 1 : 0));
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * dim, n = (end - begin) * dim;
    if (r.ends) {
      std::copy_n(x + at, n, s_.blocks + r.count * pitch + at);
      std::copy_n(rows.y + at, n, x + at);
    } else {
      ops().add(x + at, rows.y + at, n);
    }
    for (std::int64_t row = begin; row < end; ++row) states.mix(row, r.feed.bound, s_.q + row * dim);
    std::copy_n(x + at, n, s_.own + at);
    if (!r.hears) std::copy_n(s_.q + at, n, x + at);
  });
  if (r.hears) hear(rows, r, r.feed_gate, r.messages.bound + (2 * r.place + 1) * dim, s_.q, x);
}

void ResidualStates::take_fed(cpu::Rows& rows, const Residuals& r) const {
  const std::int64_t dim = step_.spec.dim;
  float* const x = step_.scratch.x;
  const States states = now(r.count + (r.ends ? 1 : 0));
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * dim, n = (end - begin) * dim;
    std::copy_n(s_.own + at, n, x + at);
    ops().add(x + at, rows.y + at, n);
    for (std::int64_t row = begin; row < end && r.last; ++row) {
      states.mix(row, r.last.bound, s_.q + row * dim);
      std::copy_n(s_.q + row * dim, dim, x + row * dim);
    }
  });
}

}  // namespace kvasir::model
