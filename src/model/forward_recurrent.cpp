// What layers with a state compute before and behind the cache's recurrence, row by row.
#include <algorithm>
#include <cmath>

#include "kernel/ops.hpp"
#include "model/apply_norm.hpp"
#include "model/forward.hpp"

namespace kvasir::model {
namespace {

using cpu::Matrix;
using kernel::ops;

constexpr auto kSilu = static_cast<std::size_t>(Activation::kSilu);

float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }
float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void multiply_rows(float* x, const float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= y[i];
}

}  // namespace

// b u to the channels, c to z.
void Forward::before(Rows& rows, const LayerSpec& layer, const ShortConv& c) {
  const std::int64_t n = c.convolution.channels;
  float *const x = s_.channels + rows.first * n, *const u = s_.mixed + rows.first * n;
  const Matrix* const users[] = {&c.b.bound, &c.u.bound, &c.c.bound};
  float* const outs[] = {x, u, z(rows)};
  prepare(rows, users, s_.x + rows.first * spec_.dim, layer.norm);
  products_.multiply(rows, users, outs);
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    multiply_rows(x + begin * n, u + begin * n, (end - begin) * n);
  });
}

// q, k and v to the channels; decays and strengths to the steps; z.
void Forward::before(Rows& rows, const LayerSpec& layer, const Delta& d) {
  const std::int64_t heads = d.value_heads;
  float* const fused = s_.mixed + rows.first * d.qkvz.rows;
  float* const b = s_.mixed + max_tokens_ * d.qkvz.rows + rows.first * (d.ba ? 2 * heads : heads);
  float* const a = s_.mixed + max_tokens_ * (d.qkvz.rows + heads) + rows.first * heads;
  const Matrix* users[4];
  float* outs[4];
  std::size_t count = 0;
  const auto add = [&](const Linear& l, float* out) {
    if (!l) return;
    users[count] = &l.bound;
    outs[count++] = out;
  };
  add(d.qkv, s_.channels + rows.first * d.convolution.channels);
  add(d.z, z(rows));
  add(d.qkvz, fused);
  add(d.ba, b);
  add(d.beta, b);
  add(d.alpha, a);
  prepare(rows, {users, count}, s_.x + rows.first * spec_.dim, layer.norm);
  products_.multiply(rows, {users, count}, {outs, count});
  const std::int64_t r = d.value_heads / d.key_heads;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (d.qkvz)
        part_heads(d, fused + row * d.qkvz.rows, s_.channels + (rows.first + row) * d.convolution.channels,
                   z(rows) + row * heads * d.dv);
      float* const decays = s_.steps + (rows.first + row) * 2 * heads;
      for (std::int64_t h = 0; h < heads; ++h) {
        const float* const pair = b + row * 2 * heads + h / r * 2 * r + h % r;
        const float beta = d.ba ? pair[0] : b[row * heads + h], alpha = d.ba ? pair[r] : a[row * heads + h];
        decays[h] = std::exp(softplus(alpha + d.dt.bound[h]) * d.decay.bound[h]);
        decays[heads + h] = d.strength * sigmoid(beta);
      }
    }
  });
}

// A row by key head, [q | k | v ... | z ...], to [q | k | v] and z.
void Forward::part_heads(const Delta& d, const float* from, float* to, float* z) {
  const std::int64_t key = d.d, values = std::int64_t{d.value_heads} / d.key_heads * d.dv;
  const std::int64_t keys = d.key_heads * key;
  for (std::int64_t h = 0; h < d.key_heads; ++h, from += 2 * (key + values)) {
    std::copy_n(from, key, to + h * key);
    std::copy_n(from + key, key, to + keys + h * key);
    std::copy_n(from + 2 * key, values, to + 2 * keys + h * values);
    std::copy_n(from + 2 * key + values, values, z + h * values);
  }
}

// v, k and q to the channels; decays and steps of time to the steps; z.
void Forward::before(Rows& rows, const LayerSpec& layer, const Mamba2& m) {
  const std::int64_t heads = m.heads;
  float* const dt = s_.mixed + rows.first * heads;
  const Matrix* const users[] = {&m.x.bound, &m.z.bound, &m.dt.bound};
  float* const outs[] = {s_.channels + rows.first * m.convolution.channels, z(rows), dt};
  prepare(rows, users, s_.x + rows.first * spec_.dim, layer.norm);
  products_.multiply(rows, users, outs);
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* const decays = s_.steps + (rows.first + row) * 2 * heads;
      for (std::int64_t h = 0; h < heads; ++h) {
        const float step = softplus(dt[row * heads + h] + m.bias.bound[h]);
        decays[h] = std::exp(step * m.decay.bound[h]);
        decays[heads + h] = step;
      }
    }
  });
}

const Linear& Forward::answer(Rows& rows, const ShortConv& c) {
  const std::int64_t n = c.convolution.channels;
  float* const y = s_.states + rows.first * n;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    multiply_rows(y + begin * n, z(rows) + begin * n, (end - begin) * n);
  });
  multiply_answer(rows, c.o, y, rows.y);
  return c.o;
}

// Normed, then gated.
const Linear& Forward::answer(Rows& rows, const Delta& d) {
  const std::int64_t n = std::int64_t{d.value_heads} * d.dv;
  float* const y = s_.states + rows.first * n;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      apply(d.norm, y + r * n, y + r * n, n);
      ops().gate[kSilu](z(rows) + r * n, y + r * n, y + r * n, n);
    }
  });
  multiply_answer(rows, d.o, y, rows.y);
  return d.o;
}

// Gated, then normed.
static void finish(const Mamba2& m, const float* z, float* y, std::int64_t n) {
  ops().gate[kSilu](z, y, y, n);
  if (m.norm) apply(m.norm, y, y, n);
}

const Linear& Forward::answer(Rows& rows, const Mamba2& m) {
  const std::int64_t n = std::int64_t{m.heads} * m.head_dim;
  float* const y = s_.states + rows.first * n;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) finish(m, z(rows) + r * n, y + r * n, n);
  });
  multiply_answer(rows, m.o, y, rows.y);
  return m.o;
}

// rows.y, which the mixer has given, += what the one beside it gives.
void Forward::add_beside(Rows& rows, const Mamba2& m) {
  const std::int64_t dim = spec_.dim;
  float* const first = rows.y;
  float* const second = s_.beside + rows.first * dim;
  rows.y = second;
  answer(rows, m);
  rows.y = first;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    ops().add(first + begin * dim, second + begin * dim, (end - begin) * dim);
  });
}

}  // namespace kvasir::model
