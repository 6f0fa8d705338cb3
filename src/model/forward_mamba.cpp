// Mamba, whose gates are made of what the convolution gives: row by row, then the convolution, row by row once more,
// then the scan.
#include <algorithm>
#include <utility>

#include "kernel/ops.hpp"
#include "kernel/recurrence.hpp"
#include "model/apply_norm.hpp"
#include "model/cache_shape.hpp"
#include "model/forward.hpp"

namespace kvasir::model {

using cpu::Matrix;
using kernel::ops;

// x to the channels; z.
void Forward::before(Rows& rows, const LayerSpec& layer, const Mamba& m) {
  const Matrix* const users[] = {&m.x.bound, &m.z.bound};
  float* const outs[] = {s_.channels + rows.first * m.channels, z(rows)};
  prepare(rows, users, s_.x + rows.first * spec_.dim, layer.norm);
  products_.multiply(rows, users, outs);
}

void Forward::scan(int layer, const Mamba& m) {
  const kv::Recurrent how = recurrence_of(m);
  cache_->convolve(layer, how, s_.channels, s_.mixed);
  in_rows([&](Rows& rows) { make_steps(rows, m); });
  cache_->recur(layer, how, s_.channels, s_.steps, s_.states);
}

// The gates of the rows' tokens, [steps | k | q], of u, in whose place the steps are made.
void Forward::make_steps(Rows& rows, const Mamba& m) {
  float* room = s_.mixed;
  const auto part = [&](std::int64_t width) {
    float* const at = room + rows.first * width;
    room += max_tokens_ * width;
    return at;
  };
  float* const u = part(m.channels);
  float *const t = part(m.t.rows), *const k = part(m.state), *const q = part(m.state);
  const Matrix* const users[] = {&m.t.bound, &m.k.bound, &m.q.bound};
  float* const outs[] = {t, k, q};
  prepare(rows, users, u, {});
  products_.multiply(rows, users, outs);
  const Matrix* const dt[] = {&m.dt.bound};
  float* const steps[] = {u};
  prepare(rows, dt, t, m.t_norm);
  products_.multiply(rows, dt, steps);
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const gates = s_.steps + (rows.first + r) * (m.channels + 2 * m.state);
      std::copy_n(u + r * m.channels, m.channels, gates);
      ops().add(gates, m.dt.bias.bound, m.channels);
      kernel::recurrence().softplus(gates, m.channels);
      float* to = gates + m.channels;
      for (const auto& [from, norm] : {std::pair(k, &m.k_norm), std::pair(q, &m.q_norm)}) {
        std::copy_n(from + r * m.state, m.state, to);
        if (*norm) apply(*norm, to, to, m.state);
        to += m.state;
      }
    }
  });
}

const Linear& Forward::answer(Rows& rows, const Mamba& m) {
  const std::int64_t n = m.channels;
  float* const y = s_.states + rows.first * n;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      ops().gate[static_cast<std::size_t>(Activation::kSilu)](z(rows) + r * n, y + r * n, y + r * n, n);
  });
  multiply_answer(rows, m.o, y, rows.y);
  return m.o;
}

}  // namespace kvasir::model
