// What a layer computes. How a team shares the work is in cpu/.
#include "model/forward.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.hpp"
#include "base/error.hpp"
#include "kernel/bidirectional.hpp"
#include "kernel/ops.hpp"
#include "model/apply_norm.hpp"
#include "model/cache_shape.hpp"

namespace kvasir::model {
namespace {

using cpu::Matrix;
using kernel::ops;

const Vector kNone = {};

// x to -most .. most, if there is a most.
void clamp(float* x, float most, std::int64_t n) {
  for (std::int64_t i = 0; i < n && most > 0; ++i) x[i] = std::clamp(x[i], -most, most);
}

}  // namespace

// Takes the rows through the first layers, and into what the layer behind them begins with unless it `ends` there. If a
// disk does not give the weights, the step is given up.
void Forward::pass(std::span<const Input> inputs, int layers, bool ends) {
  if (cache_) cache_->begin(slices_);
  try {
    embed(inputs);
    if (spec_.embedding.layers) make_inputs(inputs);
    if (spec_.embedding.join) join(inputs);
    angles();
    const auto begin = [&](Rows& rows, int l) {
      weights_.enter(l, BundleKind::kMixer);
      before(rows, spec_.layers[static_cast<std::size_t>(l)]);
    };
    in_rows([&](Rows& rows) { begin(rows, 0); });
    for (int l = 0; l < layers; ++l) {
      mix(l);
      // The end of a layer and the beginning of the next have no meeting of all rows between them.
      in_rows([&](Rows& rows) {
        weights_.enter(l, BundleKind::kFeed);
        after(rows, static_cast<std::size_t>(l));
        weights_.leave(l);
        if (l + 1 < layers || !ends) begin(rows, l + 1);
      });
    }
    if (!ends) weights_.leave(layers);
  } catch (const Error&) {
    weights_.leave_all();
    experts_.take_bytes_read();
    if (cache_) cache_->abort();
    throw;
  }
}

std::span<const float> Forward::step(std::span<const Input> inputs) {
  const int wanted = take(inputs);
  pass(inputs, spec_.layer_count(), true);
  if (cache_) cache_->commit();
  weight_bytes_ = shared_bytes_ + experts_.take_bytes_read();
  return logits(inputs, wanted);
}

void Forward::look(std::span<const Input> inputs, int layer, const Observer& observer) {
  KVASIR_CHECK(cache_ && layer >= 0 && layer < spec_.layer_count() && take(inputs) == 0);
  pass(inputs, layer, false);
  observer(layer, slices_, s_.q, s_.k, s_.v);
  cache_->commit(layer);
  experts_.take_bytes_read();
}

void Forward::row_of(std::int32_t token, float* x) const {
  KVASIR_CHECK(token >= 0 && token < spec_.vocab);
  const Embedding& e = spec_.embedding;
  e.tokens.row(token, x);
  if (e.scale != 1.0f) ops().scale(x, e.scale, spec_.dim);
}

std::vector<float> Forward::rows_of(std::span<const std::int32_t> tokens) const {
  std::vector<float> rows(tokens.size() * static_cast<std::size_t>(spec_.dim));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    row_of(tokens[i], rows.data() + i * static_cast<std::size_t>(spec_.dim));
  return rows;
}

void Forward::embed(std::span<const Input> inputs) {
  const Embedding& e = spec_.embedding;
  const std::int64_t dim = spec_.dim;
  std::size_t row = 0;
  for (const Input& in : inputs)
    for (std::size_t i = 0; i < in.tokens.size(); ++i) {
      const std::int32_t id = in.tokens[i];
      float* const x = s_.x + static_cast<std::int64_t>(row) * dim;
      if (id < 0) {
        const std::int64_t at = in.at + static_cast<std::int64_t>(i);
        const RowRun& run = run_at(in.runs, at);
        std::copy_n(run.block->row(at - run.begin), dim, x);
        if (run.block->deep() > 0) deep_.push_back({static_cast<std::int64_t>(row), run.block.get(), at - run.begin});
      } else {
        row_of(id, x);
      }
      if (e.positions) {
        float* const learned = s_.rows.whole(1).y;
        KVASIR_CHECK(positions_[row] < e.positions.rows);
        e.positions.row(positions_[row], learned);
        ops().add(x, learned, dim);
      }
      if (e.types) {
        float* const type = s_.rows.whole(1).y;
        const bool second = in.second >= 0 && static_cast<std::int64_t>(i) >= in.second;
        e.types.row(second && e.types.rows > 1 ? 1 : 0, type);
        ops().add(x, type, dim);
      }
      if (e.norm) apply(e.norm, x, x, dim);
      ++row;
    }
}

// Rows of tokens and the states that come with them become one.
void Forward::join(std::span<const Input> inputs) {
  const Join& j = spec_.embedding.join;
  const std::int64_t dim = spec_.dim;
  std::int64_t first = 0;
  for (const Input& in : inputs) {
    KVASIR_CHECK(in.states);
    const auto count = static_cast<std::int64_t>(in.tokens.size());
    team_.parallel_for(count, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* const row = s_.joined + (first + i) * 2 * dim;
        apply(j.norm, s_.x + (first + i) * dim, row, dim);
        apply(j.state_norm, in.states + i * dim, row + dim, dim);
      }
    });
    first += count;
  }
  const Matrix* const users[] = {&j.both.bound};
  float* const outs[] = {s_.x};
  Rows rows = s_.rows.whole(rows_);
  prepare(rows, users, s_.joined, {});
  products_.multiply(rows, users, outs);
}

// What the embedding has for every layer.
void Forward::make_inputs(std::span<const Input> inputs) {
  const LayerInputs& e = spec_.embedding.layers;
  const Matrix* const users[] = {&e.projection.bound};
  float* const outs[] = {s_.inputs};
  Rows rows = s_.rows.whole(rows_);
  prepare(rows, users, s_.x, {});
  products_.multiply(rows, users, outs);
  const float root = 1.0f / std::sqrt(static_cast<float>(spec_.dim));
  const std::int64_t width = e.projection.rows;
  std::vector<std::int32_t>& ids = ids_;
  ids.clear();
  for (const Input& in : inputs) ids.insert(ids.end(), in.tokens.begin(), in.tokens.end());
  team_.parallel_for(rows_, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    float* const token = s_.token_inputs + worker * width;
    for (std::int64_t r = begin; r < end; ++r) {
      float* const row = s_.inputs + r * width;
      ops().scale(row, root, width);
      apply(e.norm, row, row, width);
      e.tokens.row(ids[static_cast<std::size_t>(r)], token);
      ops().scale(token, e.scale, width);
      ops().add(row, token, width);
      ops().scale(row, std::numbers::sqrt2_v<float> / 2, width);
    }
  });
}

void Forward::before(Rows& rows, const LayerSpec& layer) {
  std::visit([&](const auto& mixer) { before(rows, layer, mixer); }, layer.mixer);
  if (layer.beside) before(rows, layer, layer.beside);
}

// Queries, keys and values of a layer.
void Forward::before(Rows& rows, const LayerSpec& layer, const Attention& a) {
  if (a.latent) return before_latent(rows, layer, a);
  float* const q = s_.q + rows.first * a.q.rows;
  float* const k = s_.k + rows.first * a.k.rows;
  const std::int64_t values = a.v_of_k ? a.k.rows : a.v.rows;
  float* const v = s_.v + rows.first * values;
  const Matrix* users[4];
  float* outs[4];
  std::size_t count = 0;
  const auto add = [&](const Linear& l, float* out) {
    if (!l) return;  // keys and values: the layer reads another's
    users[count] = &l.bound;
    outs[count++] = out;
  };
  add(a.q, q);
  add(a.k, k);
  add(a.v, v);
  add(a.gate, gates(rows));
  prepare(rows, {users, count}, s_.x + rows.first * spec_.dim, layer.norm);
  products_.multiply(rows, {users, count}, {outs, count});
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      finish_heads(q + r * a.q.rows, a, a.q, a.q_norm, a.heads, rows.first + r);
      if (a.temperature) heat(q + r * a.q.rows, a, rows.first + r);
      if (!a.k) continue;
      if (a.v_of_k) std::copy_n(k + r * values, values, v + r * values);
      finish_heads(k + r * a.k.rows, a, a.k, a.k_norm, a.kv_heads, rows.first + r);
      finish_values(v + r * values, a, values);
    }
  });
}

// Bias, norm and RoPE of the query or key heads of one row.
void Forward::finish_heads(float* x, const Attention& a, const Linear& l, const Norm& norm, int heads,
                           std::int64_t row) const {
  if (l.bias) ops().add(x, l.bias.bound, l.rows);
  clamp(x, a.clamp, l.rows);
  if (norm && !a.norm_after_rope) apply(norm, x, x, l.rows);
  if (a.rope >= 0) {
    const Rope& r = spec_.ropes[static_cast<std::size_t>(a.rope)];
    const auto pairs = static_cast<std::int64_t>(r.frequencies.size());
    const std::int64_t at = angles_at(a.rope) + row * pairs;
    for (int h = 0; h < heads; ++h) ops().rope(x + h * a.d, s_.cos + at, s_.sin + at, pairs, r.pairs);
  }
  if (norm && a.norm_after_rope) apply(norm, x, x, l.rows);
}

void Forward::finish_values(float* v, const Attention& a, std::int64_t width) const {
  if (a.v.bias) ops().add(v, a.v.bias.bound, width);
  clamp(v, a.clamp, width);
  if (a.v_norm) apply(a.v_norm, v, v, width);
}

// The queries of one row, far from the beginning of a text.
void Forward::heat(float* q, const Attention& a, std::int64_t row) const {
  const Temperature& t = a.temperature;
  const std::int64_t times = (positions_[static_cast<std::size_t>(row)] + t.offset) / t.length;
  const double factor = 1.0 + static_cast<double>(t.scale) * std::log1p(static_cast<double>(times));
  if (times > 0) ops().scale(q, static_cast<float>(factor), a.q.rows);
}

// What one KV head's attention reads of a latent layer. The whole team does it.
void Forward::before_latent(Rows& rows, const LayerSpec& layer, const Attention& a) {
  KVASIR_CHECK(rows.worker < 0);
  const Latent& m = a.latent;
  const Linear& first = m.down ? m.down : a.q;
  const Matrix* const users[] = {&first.bound, &a.k.bound};
  float* const outs[] = {m.down ? s_.low : s_.own, s_.k};
  prepare(rows, users, s_.x, layer.norm);
  products_.multiply(rows, users, outs);
  if (m.down) {
    const Matrix* const q[] = {&a.q.bound};
    float* const own[] = {s_.own};
    prepare(rows, q, s_.low, m.down_norm);
    products_.multiply(rows, q, own);
  }
  const Rope& rope = spec_.ropes[static_cast<std::size_t>(a.rope)];
  const auto pairs = static_cast<std::int64_t>(rope.frequencies.size());
  const std::int64_t wide = m.nope + m.rope;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t at = angles_at(a.rope) + r * pairs;
      float* const k = s_.k + r * a.k.rows;
      apply(a.k_norm, k, k, m.rank);
      ops().rope(k + m.rank, s_.cos + at, s_.sin + at, pairs, rope.pairs);
      float* const q = s_.own + r * a.q.rows;
      if (a.temperature) heat(q, a, r);
      for (int h = 0; h < a.heads; ++h) {
        float* const turned = q + h * wide + m.nope;
        ops().rope(turned, s_.cos + at, s_.sin + at, pairs, rope.pairs);
        std::copy_n(turned, m.rope, s_.q + (r * a.heads + h) * a.d + m.rank);
      }
    }
  });
  head_products_.multiply(rows.count, a.heads, m.up_k.bound, {s_.own, a.q.rows, wide},
                          {s_.q, std::int64_t{a.heads} * a.d, a.d});
}

// What the output matrix of a latent layer reads.
void Forward::values_of_latent(const Rows& rows, const Attention& a) {
  const Latent& m = a.latent;
  head_products_.multiply(rows.count, a.heads, m.up_v.bound, {s_.heads, std::int64_t{a.heads} * a.dv, a.dv},
                          {s_.values, a.o.columns, m.values});
}

// What rows have to do with each other.
void Forward::mix(int layer) {
  const LayerSpec& l = spec_.layers[static_cast<std::size_t>(layer)];
  const auto* const a = std::get_if<Attention>(&l.mixer);
  const bool keys = a && a->k;
  if (observer_)
    observer_(layer, slices_, a ? s_.q : nullptr, keys ? s_.k : nullptr, a && (a->v || a->v_of_k) ? s_.v : nullptr);
  if (a) attend(layer, *a);
  if (const auto* c = std::get_if<ShortConv>(&l.mixer)) recur(layer, *c);
  if (const auto* d = std::get_if<Delta>(&l.mixer)) recur(layer, *d);
  if (const auto* m = std::get_if<Mamba2>(&l.mixer)) recur(layer, *m);
  if (l.beside) recur(layer, l.beside);
}

template <class M>
void Forward::recur(int layer, const M& mixer) {
  cache_->recur(layer, recurrence_of(mixer), s_.channels, s_.steps, s_.states);
}

void Forward::attend(int layer, const Attention& a) {
  const float* const k = a.k ? s_.k : nullptr;
  const float* const v = a.v || a.v_of_k ? s_.v : nullptr;
  if (!cache_) return attend_whole(a);
  cache_->attend(layer, s_.q, k, v, s_.heads,
                 {a.scale, a.soft_cap, a.slopes.empty() ? nullptr : a.slopes.data(), a.sinks.bound,
                  a.rope < 0 ? nullptr : &turns_[static_cast<std::size_t>(a.rope)]});
}

// Every row with the rows of its text that it sees, head by head.
void Forward::attend_whole(const Attention& a) {
  const auto texts = static_cast<std::int64_t>(slices_.size());
  team_.parallel_for(texts * a.heads, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t i = begin; i < end; ++i) {
      const kv::Slice& text = slices_[static_cast<std::size_t>(i / a.heads)];
      const std::int64_t h = i % a.heads, kv = h * a.kv_heads / a.heads;
      kernel::bidirectional().attend({.n = text.count,
                                      .d = a.d,
                                      .dv = a.dv,
                                      .q = s_.q + text.row * a.q.rows + h * a.d,
                                      .k = s_.k + text.row * a.k.rows + kv * a.d,
                                      .v = s_.v + text.row * a.v.rows + kv * a.dv,
                                      .q_stride = a.q.rows,
                                      .k_stride = a.k.rows,
                                      .v_stride = a.v.rows,
                                      .scale = a.scale,
                                      .soft_cap = a.soft_cap,
                                      .out = s_.heads + text.row * a.o.columns + h * a.dv,
                                      .out_stride = a.o.columns,
                                      .reach = a.window > 0 ? a.window / 2 : -1,
                                      .slope = a.slopes.empty() ? 0 : a.slopes[static_cast<std::size_t>(h)]},
                                     s_.whole + worker * s_.whole_stride);
    }
  });
}

// heads *= act(gate)
void Forward::gate_heads(const Rows& rows, const Attention& a) {
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const gate = gates(rows) + r * a.gate.rows;
      float* const heads = s_.heads + (rows.first + r) * a.o.columns;
      const auto kind = static_cast<std::size_t>(a.gate_activation);
      if (a.gate.bias) ops().add(gate, a.gate.bias.bound, a.gate.rows);
      if (a.gate.rows == a.o.columns) {
        ops().gate[kind](gate, heads, heads, a.o.columns);
        continue;
      }
      ops().activate[kind](gate, a.heads);
      for (int h = 0; h < a.heads; ++h) ops().scale(heads + h * a.dv, gate[h], a.dv);
    }
  });
}

void Forward::multiply_answer(Rows& rows, const Linear& l, const float* x, float* y) {
  const Matrix* const users[] = {&l.bound};
  float* const outs[] = {y};
  prepare(rows, users, x, {});
  products_.multiply(rows, users, outs);
}

// What attention gives, gated, through the output matrix.
const Linear& Forward::answer(Rows& rows, const Attention& a) {
  if (a.gate) gate_heads(rows, a);
  if (a.latent) values_of_latent(rows, a);
  multiply_answer(rows, a.o, (a.latent ? s_.values : s_.heads) + rows.first * a.o.columns, rows.y);
  return a.o;
}

// From what the mixer gives to the end of layer l.
void Forward::after(Rows& rows, std::size_t l) {
  const LayerSpec& layer = spec_.layers[l];
  const auto* const dense = std::get_if<Dense>(&layer.feed);
  const bool feeds = !std::holds_alternative<NoFeed>(layer.feed);
  if (layer.parallel && dense) hide(rows, layer, *dense);  // reads what the mixer has not been added to
  const bool waits = layer.parallel && !dense;             // what the mixer gives, for experts to read the same
  const Vector* bias = nullptr;
  std::visit(
      [&](const auto& mixer) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(mixer)>, NoMixer>) {
          const Linear& o = answer(rows, mixer);
          if (layer.beside) add_beside(rows, layer.beside);
          bias = &o.bias;
          if (waits)
            std::copy_n(rows.y, rows.count * spec_.dim, s_.branch);
          else
            add(rows, layer, layer.post_mixer, o.bias, !feeds && !layer.input, layer.post_sum);
        }
      },
      layer.mixer);
  if (const auto* const experts = std::get_if<Experts>(&layer.feed)) {
    feed(rows, layer.feed_norm, *experts, l);
  } else if (const auto* const both = std::get_if<DenseAndExperts>(&layer.feed)) {
    feed(rows, layer, *both, l);
  } else if (dense) {
    if (!layer.parallel) hide(rows, layer, *dense);
    products_.multiply_hidden(rows, dense->down.bound, rows.y);
  }
  if (feeds) add(rows, layer, layer.post_feed, dense ? dense->down.bias : kNone, !layer.input && !waits);
  if (waits) {
    std::copy_n(s_.branch, rows.count * spec_.dim, rows.y);
    add(rows, layer, layer.post_mixer, *bias, !layer.input);
  }
  if (layer.input) add_input(rows, l);
  if (!deep_.empty()) add_deep(rows, l);
}

// What pictures have for layer l.
void Forward::add_deep(const Rows& rows, std::size_t l) {
  const auto before = [](const DeepRow& d, std::int64_t row) { return d.row < row; };
  for (auto d = std::lower_bound(deep_.begin(), deep_.end(), rows.first, before);
       d != deep_.end() && d->row < rows.first + rows.count; ++d)
    if (static_cast<int>(l) < d->block->deep())
      ops().add(s_.x + d->row * spec_.dim, d->block->deep_row(static_cast<int>(l), d->i), spec_.dim);
}

void Forward::add_input(Rows& rows, std::size_t l) {
  const LayerSpec& layer = spec_.layers[l];
  const LayerInput& in = layer.input;
  const Matrix *const gate[] = {&in.gate.bound}, *const out[] = {&in.out.bound};
  const std::int64_t width = in.gate.rows;
  float* const hidden = gates(rows);
  float *const hiddens[] = {hidden}, *const y[] = {rows.y};
  prepare(rows, gate, s_.x + rows.first * spec_.dim, {});
  products_.multiply(rows, gate, hiddens);
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const h = hidden + r * width;
      const float* const e = s_.inputs + (rows.first + r) * s_.input_width + static_cast<std::int64_t>(l) * width;
      ops().gate[static_cast<std::size_t>(in.activation)](h, e, h, width);
    }
  });
  prepare(rows, out, hidden, {});
  products_.multiply(rows, out, y);
  add(rows, layer, in.post, kNone, true);
}

// What a dense feed forward and experts give, each normed.
void Forward::feed(Rows& rows, const LayerSpec& layer, const DenseAndExperts& both, std::size_t l) {
  hide(rows, layer, both.dense);
  products_.multiply_hidden(rows, both.dense.down.bound, s_.branch);
  feed(rows, both.experts_norm, both.experts, l);
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float *const y = rows.y + r * spec_.dim, *const dense = s_.branch + r * spec_.dim;
      if (both.dense.down.bias) ops().add(dense, both.dense.down.bias.bound, spec_.dim);
      if (both.dense_post) apply(both.dense_post, dense, dense, spec_.dim);
      if (both.experts_post) apply(both.experts_post, y, y, spec_.dim);
      ops().add(y, dense, spec_.dim);
    }
  });
}

// Draft tokens which experts layer l will choose: its router reads what the layer before it does. Only to read them
// early.
void Forward::expect(Rows& rows, std::size_t l) {
  constexpr int kMostRows = 8;  // more rows use most experts anyway
  if (l >= spec_.layers.size() || rows.count > kMostRows) return;
  cpu::ExpertSource* const source = weights_.experts(static_cast<int>(l));
  const auto* const e = std::get_if<Experts>(&spec_.layers[l].feed);
  if (!source || !e || !weights_.bound(static_cast<int>(l), BundleKind::kFeed)) return;
  const Matrix* const routers[] = {&e->router.bound};
  float* const outs[] = {s_.experts.logits()};
  prepare(rows, routers, s_.x + rows.first * spec_.dim, e->router_norm ? e->router_norm : spec_.layers[l].feed_norm);
  products_.multiply(rows, routers, outs);
  for (int r = 0; r < rows.count && e->router.bias; ++r)
    ops().add(outs[0] + r * e->routing.count, e->router.bias.bound, e->routing.count);
  source->expect(experts_.predict({0, rows.count}, e->routing, e->choice_bias.bound));
}

// What the shared expert gives, and to it what the experts that the router chooses give.
void Forward::feed(Rows& rows, const Norm& norm, const Experts& e, std::size_t l) {
  expect(rows, l + 1);
  const float* const x = s_.x + rows.first * spec_.dim;
  const Matrix* const routers[] = {&e.router.bound, &e.shared_gate.bound};
  float* const outs[] = {s_.experts.logits(), s_.experts.shared_weights()};
  if (e.router_norm) {  // the router reads rows of its own
    prepare(rows, {routers, 1}, x, e.router_norm);
    products_.multiply(rows, {routers, 1}, {outs, 1});
  }
  const Matrix* users[] = {e.into ? &e.into.bound : &e.up.bound.first, nullptr, nullptr, nullptr, nullptr, nullptr};
  std::size_t count = 1;
  if (!e.router_norm) users[count++] = &e.router.bound;
  if (e.gate && !e.into) users[count++] = &e.gate.bound.first;
  if (e.shared.up) users[count++] = &e.shared.up.bound;
  if (e.shared.gate) users[count++] = &e.shared.gate.bound;
  if (e.shared_gate) users[count++] = &e.shared_gate.bound;
  prepare(rows, {users, count}, x, norm);

  const std::size_t from = e.router_norm ? 1 : 0, to = e.shared_gate ? 2 : 1;
  if (from < to) products_.multiply(rows, {routers + from, to - from}, {outs + from, to - from});
  if (e.into) {
    const Matrix* const into[] = {&e.into.bound};
    float* const narrow[] = {s_.narrow};
    products_.multiply(rows, into, narrow);
  }
  if (e.shared.up) {
    make_hidden(rows, e.shared);
    products_.multiply_hidden(rows, e.shared.down.bound, rows.y);
  }
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const logits = outs[0] + r * e.routing.count;
      if (e.router_scale != 1.0f) ops().scale(logits, e.router_scale, e.routing.count);
      if (e.router.bias) ops().add(logits, e.router.bias.bound, e.routing.count);
      float* const y = rows.y + r * spec_.dim;
      if (!e.shared.up) {
        std::fill_n(y, spec_.dim, 0.0f);
        continue;
      }
      if (e.shared.down.bias) ops().add(y, e.shared.down.bias.bound, spec_.dim);
      if (e.shared_gate) ops().scale(y, 1.0f / (1.0f + std::exp(-outs[1][r])), spec_.dim);
    }
    choose(e, begin, end);
  });
  const cpu::ExpertStacks stacks{e.activation,
                                 e.gate ? &e.gate.bound : nullptr,
                                 e.gate.bias.bound,
                                 e.up.bound,
                                 e.up.bias.bound,
                                 e.down.bound,
                                 e.down.bias.bound,
                                 e.weigh_inputs,
                                 weights_.experts(static_cast<int>(l))};
  if (e.into) return add_narrow(rows, e, stacks);
  experts_.add(rows, norm ? rows.normed : x, stacks, e.routing);
}

// The experts of rows that Experts::into has made, which lie in s_.narrow.
void Forward::add_narrow(Rows& rows, const Experts& e, const cpu::ExpertStacks& stacks) {
  const std::int64_t width = e.into.rows;
  if (e.into.bias)
    for (int r = 0; r < rows.count; ++r) ops().add(s_.narrow + r * width, e.into.bias.bound, width);
  std::fill_n(s_.narrow_y, rows.count * width, 0.0f);
  const Matrix* const users[] = {&e.up.bound.first, e.gate ? &e.gate.bound.first : nullptr};
  Rows inner = rows;
  inner.y = s_.narrow_y;
  prepare(inner, {users, e.gate ? 2u : 1u}, s_.narrow, {});
  experts_.add(inner, s_.narrow, stacks, e.routing);
  const Matrix* const out[] = {&e.out.bound};
  float* const outs[] = {s_.branch};
  prepare(rows, out, s_.narrow_y, {});
  products_.multiply(rows, out, outs);
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (e.out.bias) ops().add(s_.branch + r * spec_.dim, e.out.bias.bound, spec_.dim);
      ops().add(rows.y + r * spec_.dim, s_.branch + r * spec_.dim, spec_.dim);
    }
  });
}

void Forward::choose(const Experts& e, std::int64_t begin, std::int64_t end) {
  if (!expert_hooks_.bias && !expert_hooks_.chosen)
    return experts_.choose({begin, end}, e.routing, e.choice_bias.bound, e.weight_scales.bound);
  for (std::int64_t r = begin; r < end; ++r) {
    const float* const own = expert_hooks_.bias ? expert_hooks_.bias(e, r) : nullptr;
    experts_.choose({r, r + 1}, e.routing, own ? own : e.choice_bias.bound, e.weight_scales.bound);
    if (expert_hooks_.chosen) expert_hooks_.chosen(e, r, experts_.chosen(r, e.routing));
  }
}

// The hidden rows of a feed forward.
void Forward::hide(Rows& rows, const LayerSpec& layer, const Dense& feed) {
  const Matrix* const users[] = {&feed.up.bound, &feed.gate.bound};
  prepare(rows, {users, feed.gate ? 2u : 1u}, s_.x + rows.first * spec_.dim, layer.feed_norm);
  make_hidden(rows, feed);
}

void Forward::make_hidden(Rows& rows, const Dense& feed) {
  products_.make_hidden(rows,
                        {feed.activation, feed.gate ? &feed.gate.bound : nullptr, feed.gate.bias.bound, feed.up.bound,
                         feed.up.bias.bound, &feed.xielu},
                        feed.down.bound);
}

// x += residual_scale * post(y + bias), the last time of a layer x *= output_scale. With a `sum`, x = sum(x + post(x +
// y)).
void Forward::add(const Rows& rows, const LayerSpec& layer, const Norm& post, const Vector& bias, bool last,
                  const Norm& sum) {
  const std::int64_t dim = spec_.dim;
  products_.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = (end - begin) * dim;
    float* const x = s_.x + (rows.first + begin) * dim;
    float* const y = rows.y + begin * dim;
    for (std::int64_t i = 0; i < n && (bias || post); i += dim) {
      if (bias) ops().add(y + i, bias.bound, dim);
      if (post && !layer.norm_of_sums) apply(post, y + i, y + i, dim);
    }
    if (layer.residual_scale != 1.0f) ops().scale(y, layer.residual_scale, n);
    for (std::int64_t i = 0; i < n && sum; i += dim) {
      ops().add(y + i, x + i, dim);
      apply(post, y + i, y + i, dim);
    }
    ops().add(x, y, n);
    for (std::int64_t i = 0; i < n && layer.norm_of_sums; i += dim) apply(sum ? sum : post, x + i, x + i, dim);
    if (last && layer.output_scale) ops().scale(x, *layer.output_scale.bound, n);
  });
}

// Only the wanted rows go through the output matrix.
std::span<const float> Forward::logits(std::span<const Input> inputs, int wanted) {
  const std::int64_t dim = spec_.dim;
  float* const gathered = s_.rows.whole(std::max(1, wanted)).y;
  int out = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const int first = slices_[i].row + slices_[i].count - inputs[i].logits;
    for (int r = 0; r < inputs[i].logits; ++r, ++out) std::copy_n(s_.x + (first + r) * dim, dim, gathered + out * dim);
  }
  return multiply_head(gathered, wanted);
}

std::span<const float> Forward::logits_of(int first, int count) {
  KVASIR_CHECK(first >= 0 && count >= 1 && first + count <= rows_ && count <= max_logits_);
  return multiply_head(s_.x + first * spec_.dim, count);
}

void Forward::state_of(int row, float* out) const {
  KVASIR_CHECK(row >= 0 && row < rows_);
  const float* const x = s_.x + row * spec_.dim;
  spec_.head.norm ? apply(spec_.head.norm, x, out, spec_.dim) : void(std::copy_n(x, spec_.dim, out));
}

// Of one row.
std::vector<float> Forward::multiply_one(const Linear& l, const std::vector<float>& x) {
  std::vector<float> y(static_cast<std::size_t>(l.rows));
  const Matrix* const users[] = {&l.bound};
  float* const outs[] = {y.data()};
  Rows rows = s_.rows.whole(1);
  prepare(rows, users, x.data(), {});
  products_.multiply(rows, users, outs);
  if (l.bias) ops().add(y.data(), l.bias.bound, l.rows);
  return y;
}

std::vector<float> Forward::rank(std::span<const float> state) {
  const Rank& rank = spec_.rank;
  KVASIR_CHECK(rank && static_cast<std::int64_t>(state.size()) == spec_.dim);
  std::vector<float> x(state.begin(), state.end());
  if (rank.dense) {
    x = multiply_one(rank.dense, x);
    if (rank.act == Rank::Act::kTanh)
      for (float& v : x) v = std::tanh(v);
    else
      ops().activate[static_cast<std::size_t>(rank.act == Rank::Act::kGelu ? Activation::kGeluErf : Activation::kRelu)](
          x.data(), spec_.dim);
    if (rank.norm) apply(rank.norm, x.data(), x.data(), spec_.dim);
  }
  return multiply_one(rank.output, x);
}

std::vector<float> Forward::project(std::vector<float> pooled) {
  for (const Projection& p : spec_.projections) {
    pooled = multiply_one(p.linear, pooled);
    for (float& v : pooled)
      if (p.tanh) v = std::tanh(v);
  }
  return pooled;
}

std::span<const float> Forward::multiply_head(const float* x, int count) {
  const Head& head = spec_.head;
  KVASIR_CHECK(count == 0 || head.output);
  if (count > 0) {
    const Matrix* const users[] = {&head.output.bound};
    float* const outs[] = {s_.logits};
    Rows rows = s_.rows.whole(count);
    prepare(rows, users, x, head.norm);
    products_.multiply(rows, users, outs);
    const bool plain = !head.output.bias && head.scale == 1.0f && head.soft_cap == 0.0f;
    for (int r = 0; r < count && !plain; ++r) {
      float* const row = s_.logits + r * spec_.vocab;
      if (head.output.bias) ops().add(row, head.output.bias.bound, spec_.vocab);
      if (head.scale != 1.0f) ops().scale(row, head.scale, spec_.vocab);
      if (head.soft_cap > 0.0f) ops().soft_cap(row, head.soft_cap, spec_.vocab);
    }
  }
  return {s_.logits, static_cast<std::size_t>(count * spec_.vocab)};
}

void Forward::prepare(Rows& rows, std::span<const Matrix* const> users, const float* x, const Norm& norm) {
  const std::int64_t k = users[0]->k;
  if (!norm) return products_.prepare(rows, users, x, k, {});
  products_.prepare(rows, users, x, k, [&](const float* from, float* out) { apply(norm, from, out, k); });
}

}  // namespace kvasir::model
