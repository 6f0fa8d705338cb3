// What Kimi Delta Attention computes before and behind the cache's recurrence, row by row.
#include <algorithm>
#include <cmath>

#include "kernel/ops.hpp"
#include "kernel/recurrence.hpp"
#include "model/apply_norm.hpp"
#include "model/forward.hpp"

namespace kvasir::model {

using cpu::Matrix;
using kernel::ops;

// q, k and v to the channels; decays and strengths to the steps; z.
void Forward::before(Rows& rows, const LayerSpec& layer, const KeyedDelta& d) {
  const std::int64_t heads = d.heads, keys = heads * d.d, values = heads * d.dv, channels = 2 * keys + values;
  float* room = s_.mixed;
  const auto part = [&](const Linear& l) {
    float* const at = room + rows.first * l.rows;
    room += max_tokens_ * l.rows;
    return at;
  };
  float *const q = part(d.q), *const k = part(d.k), *const v = part(d.v), *const beta = part(d.beta);
  float *const a_down = part(d.a_down), *const a = part(d.a), *const z_down = part(d.z_down);
  float* const fused = s_.channels + rows.first * channels;
  const Matrix* users[6];
  float* outs[6];
  std::size_t count = 0;
  const auto add = [&](const Linear& l, float* out) {
    if (!l) return;
    users[count] = &l.bound;
    outs[count++] = out;
  };
  add(d.q, q);
  add(d.k, k);
  add(d.v, v);
  add(d.qkv, fused);
  add(d.beta, beta);
  d.a_down ? add(d.a_down, a_down) : add(d.a, a);
  d.z_down ? add(d.z_down, z_down) : add(d.z, z(rows));
  prepare(rows, {users, count}, s_.x + rows.first * spec_.dim, layer.norm);
  products_.multiply(rows, {users, count}, {outs, count});
  const auto go_on = [&](const Linear& l, const float* from, float* to) {
    const Matrix* const user[] = {&l.bound};
    float* const out[] = {to};
    prepare(rows, user, from, {});
    products_.multiply(rows, user, out);
  };
  if (d.a_down) go_on(d.a, a_down, a);
  if (d.z_down) go_on(d.z, z_down, z(rows));
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (!d.qkv) {
        float* const to = fused + r * channels;
        std::copy_n(q + r * keys, keys, to);
        std::copy_n(k + r * keys, keys, to + keys);
        std::copy_n(v + r * values, values, to + 2 * keys);
      }
      float* const decays = s_.steps + (rows.first + r) * (keys + heads);
      std::copy_n(a + r * keys, keys, decays);
      ops().add(decays, d.dt.bound, keys);
      for (std::int64_t h = 0; h < heads; ++h) {
        const float rate = std::abs(d.decay.bound[h]);
        kernel::recurrence().forget(decays + h * d.d, d.d, d.floor == 0.0f ? -rate : rate, d.floor);
      }
      std::copy_n(beta + r * heads, heads, decays + keys);
      ops().activate[static_cast<std::size_t>(Activation::kSigmoid)](decays + keys, heads);
    }
  });
}

// Normed, then gated.
const Linear& Forward::answer(Rows& rows, const KeyedDelta& d) {
  const std::int64_t n = std::int64_t{d.heads} * d.dv;
  float* const y = s_.states + rows.first * n;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      apply(d.norm, y + r * n, y + r * n, n);
      ops().gate[static_cast<std::size_t>(Activation::kSigmoid)](z(rows) + r * n, y + r * n, y + r * n, n);
    }
  });
  multiply_answer(rows, d.o, y, rows.y);
  return d.o;
}

}  // namespace kvasir::model
