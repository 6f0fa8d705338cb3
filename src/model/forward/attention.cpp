// Attention: queries, keys and values, and what of its heads goes to the output matrix.
#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kernel/bidirectional.hpp"
#include "kernel/ops.hpp"
#include "model/apply_norm.hpp"
#include "model/forward/mixers.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

// x to -most .. most, if there is a most.
void clamp(float* x, float most, std::int64_t n) {
  for (std::int64_t i = 0; i < n && most > 0; ++i) x[i] = std::clamp(x[i], -most, most);
}

std::int64_t values_of(const Attention& a) { return a.v_of_k ? a.k.rows : a.v.rows; }

// Bias, norm and RoPE of the query or key heads of one row of the step.
void finish_heads(const StepState& step, float* x, const Attention& a, const Linear& l, const Norm& norm, int heads,
                  std::int64_t row) {
  if (l.bias) ops().add(x, l.bias.bound, l.rows);
  clamp(x, a.clamp, l.rows);
  if (norm && !a.norm_after_rope) apply(norm, x, x, l.rows);
  if (a.rope >= 0) {
    const Angles angles = step.angles(a.rope, row);
    for (int h = 0; h < heads; ++h) angles.rotate(x + h * a.d);
  }
  if (norm && a.norm_after_rope) apply(norm, x, x, l.rows);
}

void finish_values(float* v, const Attention& a) {
  const std::int64_t width = values_of(a);
  if (a.v.bias) ops().add(v, a.v.bias.bound, width);
  clamp(v, a.clamp, width);
  if (a.v_norm) apply(a.v_norm, v, v, width);
}

// What queries of one row of the step are multiplied by.
float factor_of(const StepState& step, const Temperature& t, std::int64_t row) {
  if (!t) return 1.0f;
  const std::int64_t position = step.positions[static_cast<std::size_t>(row)] + t.offset;
  const double times = t.smooth ? std::log(std::max(1.0, static_cast<double>(position) / static_cast<double>(t.length)))
                                : std::log1p(static_cast<double>(position / t.length));
  return static_cast<float>(1.0 + static_cast<double>(t.scale) * times);
}

// Attention::temperature, of the queries of one row of the step.
void scale_queries(const StepState& step, float* q, const Attention& a, std::int64_t row) {
  const float factor = factor_of(step, a.temperature, row);
  if (factor != 1.0f) ops().scale(q, factor, a.q.rows);
}

// Norm and RoPE of one row of an index: of its key, of its queries. Scores are compared and nothing else, so they are
// scaled by no constant.
void finish_index_key(const StepState& step, const MixerRows& m, const Indexer& x, std::int64_t row) {
  float* const k = m.index_k + row * x.d;
  apply(x.k_norm, k, k, x.d);
  step.angles(x.k_rope < 0 ? x.rope : x.k_rope, row).rotate(k);
}
void finish_index_queries(const StepState& step, const MixerRows& m, const Indexer& x, std::int64_t row) {
  const Angles angles = step.angles(x.rope, row);
  float* const q = m.index_q + row * x.heads * x.d;
  if (x.q_norm) apply(x.q_norm, q, q, std::int64_t{x.heads} * x.d);
  for (int h = 0; h < x.heads; ++h) angles.rotate(q + h * x.d);
}

// Latent attention as attention of one KV head (model::Latent). The whole team does it.
void project_latent(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const Attention& a) {
  KVASIR_CHECK(rows.worker < 0);
  const Latent& latent = a.latent;
  if (latent.down) {
    step.multiply(rows, step.residual(rows), norm,
                  {{latent.down, m.low},
                   {a.k, m.k},
                   {a.gate, step.gates(rows)},
                   {a.indexer.k, m.index_k},
                   {a.indexer.weights, m.index_weights}});
    step.multiply(rows, m.low, latent.down_norm, {{a.q, m.own}, {a.indexer.q, m.index_q}});
  } else {
    step.multiply(rows, step.residual(rows), norm, {{a.q, m.own}, {a.k, m.k}, {a.gate, step.gates(rows)}});
  }
  const std::int64_t width = latent.nope + latent.rope;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const auto rotate = [&](float* head) {
        if (a.rope >= 0) step.angles(a.rope, r).rotate(head);
      };
      float* const k = m.k + r * a.k.rows;
      apply(a.k_norm, k, k, latent.rank);
      rotate(k + latent.rank);
      if (a.indexer) finish_index_key(step, m, a.indexer, r), finish_index_queries(step, m, a.indexer, r);
      float* const q = m.own + r * a.q.rows;
      scale_queries(step, q, a, r);
      for (int h = 0; h < a.heads; ++h) {
        float* const rope = q + h * width + latent.nope;
        rotate(rope);
        std::copy_n(rope, latent.rope, m.q + (r * a.heads + h) * a.d + latent.rank);
      }
    }
  });
  cpu::HeadProducts(step.team, m.latent)
      .multiply(rows.count, a.heads, latent.up_k.bound, {m.own, a.q.rows, width},
                {m.q, std::int64_t{a.heads} * a.d, a.d});
}

// heads *= act(gate), of what the output matrix reads
void gate_heads(const StepState& step, const cpu::Rows& rows, const Attention& a, float* all) {
  const std::int64_t width = a.o.columns / a.heads;
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* const gate = step.gates(rows) + r * a.gate.rows;
      float* const heads = all + r * a.o.columns;
      const auto kind = static_cast<std::size_t>(a.gate_activation);
      if (a.gate.bias) ops().add(gate, a.gate.bias.bound, a.gate.rows);
      if (a.gate.rows == a.o.columns) {
        ops().gate[kind](gate, heads, heads, a.o.columns);
        continue;
      }
      ops().activate[kind](gate, a.heads);
      for (int h = 0; h < a.heads; ++h) ops().scale(heads + h * width, gate[h], width);
    }
  });
}

// Of an encoder: every row with the rows of its text that it sees, head by head.
void attend_whole(const StepState& step, const MixerRows& m, const Attention& a) {
  const auto texts = static_cast<std::int64_t>(step.slices.size());
  step.team.parallel_for(texts * a.heads, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t i = begin; i < end; ++i) {
      const kv::Slice& text = step.slices[static_cast<std::size_t>(i / a.heads)];
      const std::int64_t h = i % a.heads, kv = h * a.kv_heads / a.heads;
      kernel::bidirectional().attend({.n = text.count,
                                      .d = a.d,
                                      .dv = a.dv,
                                      .q = m.q + text.row * a.q.rows + h * a.d,
                                      .k = m.k + text.row * a.k.rows + kv * a.d,
                                      .v = m.v + text.row * a.v.rows + kv * a.dv,
                                      .q_stride = a.q.rows,
                                      .k_stride = a.k.rows,
                                      .v_stride = a.v.rows,
                                      .scale = a.scale,
                                      .soft_cap = a.soft_cap,
                                      .out = m.heads + text.row * a.o.columns + h * a.dv,
                                      .out_stride = a.o.columns,
                                      .reach = a.window > 0 ? a.window / 2 : -1,
                                      .slope = a.slopes.empty() ? 0 : a.slopes[static_cast<std::size_t>(h)]},
                                     m.whole + worker * m.whole_stride);
    }
  });
}

}  // namespace

void widen(MixerWidths& w, const Attention& a) {
  const auto widest = [](std::int64_t& width, std::int64_t floats) { width = std::max(width, floats); };
  widest(w.q, a.q.rows);
  widest(w.k, a.k.rows);
  widest(w.v, values_of(a));
  widest(w.gates, a.gate.rows);
  widest(w.heads, a.o.columns);
  widest(w.smoothed, a.k_smoothing ? std::max(a.k.rows, a.v.rows) : 0);
  widest(w.k_taps, a.k_smoothing.taps.rows);
  widest(w.v_taps, a.v_smoothing.taps.rows);
  widest(w.distances, a.distances.linear.rows);
  widest(w.row_sinks, a.row_sinks.rows);
  widest(w.smoothed, a.indexer.mean.convolution.channels);
  widest(w.index_q, a.indexer.q.rows);
  widest(w.index_k, a.indexer.k.rows);
  widest(w.index_weights, a.indexer.weights.rows);
  if (!a.latent) return;
  widest(w.q, std::int64_t{a.heads} * a.d);
  widest(w.heads, std::int64_t{a.heads} * a.dv);
  widest(w.low, a.latent.down.rows);
  widest(w.own, a.q.rows);
  widest(w.head_inputs, a.o.columns);
  widest(w.latent_heads, a.heads);
  widest(w.latent_width, std::max(a.latent.nope, a.latent.rank));
}

void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const Norm& norm, const Attention& a) {
  if (a.latent) return project_latent(step, m, rows, norm, a);
  const std::int64_t values = values_of(a);
  float* const q = m.q + rows.first * a.q.rows;
  float* const k = m.k + rows.first * a.k.rows;
  float* const v = m.v + rows.first * values;
  KVASIR_CHECK(!a.indexer || rows.worker < 0);
  // Without keys and values the layer reads another's.
  step.multiply(
      rows, step.residual(rows), norm,
      {{a.q, q}, {a.k, k}, {a.v, v}, {a.gate, step.gates(rows)}, {a.indexer.q, m.index_q}, {a.indexer.k, m.index_k}});
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      finish_heads(step, q + r * a.q.rows, a, a.q, a.q_norm, a.heads, rows.first + r);
      scale_queries(step, q + r * a.q.rows, a, rows.first + r);
      if (a.indexer) finish_index_queries(step, m, a.indexer, r);
      if (!a.k) continue;
      if (a.v_of_k) std::copy_n(k + r * values, values, v + r * values);
      finish_heads(step, k + r * a.k.rows, a, a.k, a.k_norm, a.kv_heads, rows.first + r);
      finish_values(v + r * values, a);
    }
  });
}

void project(const StepState& step, const MixerRows& m, cpu::Rows& rows, const MixerInput& q, const MixerInput& k,
             const MixerInput& v, const Attention& a) {
  KVASIR_CHECK(rows.worker < 0 && rows.first == 0 && a.k_smoothing && a.v_smoothing && a.rope < 0);
  const Distances& d = a.distances;
  step.multiply(rows, q.x, q.norm,
                {{a.q, m.q}, {a.gate, step.gates(rows)}, {d.linear, m.distances}, {a.row_sinks, m.row_sinks}});
  step.multiply(rows, k.x, k.norm, {{a.k, m.k}, {a.k_smoothing.taps, m.k_taps}});
  step.multiply(rows, v.x, v.norm, {{a.v, m.v}, {a.v_smoothing.taps, m.v_taps}});
  step.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      finish_heads(step, m.q + r * a.q.rows, a, a.q, a.q_norm, a.heads, r);
      scale_queries(step, m.q + r * a.q.rows, a, r);
      if (!d) continue;
      float* const own = m.distances + r * d.linear.rows;
      apply(d.norm, own, own, d.linear.rows);
      const float factor = factor_of(step, a.temperature, r);
      if (factor != 1.0f) ops().scale(own, factor, d.linear.rows);
    }
  });
}

void smooth(const StepState& step, const MixerRows& m, const Smoothing& s, float* x, const float* taps) {
  kv::Recurrent how = recurrence_of(s);
  how.row_taps = s.taps ? taps : nullptr;
  step.cache->recur(step.spec.layer_count() + s.state, how, x, nullptr, m.smoothed);
  const std::int64_t width = s.convolution.channels;
  step.team.parallel_for(step.rows, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
    if (s.alone) return void(std::copy_n(m.smoothed + begin * width, (end - begin) * width, x + begin * width));
    ops().add(x + begin * width, m.smoothed + begin * width, (end - begin) * width);
    ops().scale(x + begin * width, s.scale, (end - begin) * width);
  });
}

namespace {

// Keys and values as the cache gets them.
void smooth_keys_and_values(const StepState& step, const MixerRows& m, const Attention& a) {
  smooth(step, m, a.k_smoothing, m.k, m.k_taps);
  smooth(step, m, a.v_smoothing, m.v, m.v_taps);
  step.team.parallel_for(step.rows, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (a.k_norm) apply(a.k_norm, m.k + r * a.k.rows, m.k + r * a.k.rows, a.k.rows);
      if (a.v_norm) apply(a.v_norm, m.v + r * a.v.rows, m.v + r * a.v.rows, a.v.rows);
    }
  });
}

// Keys of an index whose tokens are chosen several at a time, as the cache gets them.
void average_index_keys(const StepState& step, const MixerRows& m, const Indexer& x) {
  smooth(step, m, x.mean, m.index_k);
  step.team.parallel_for(step.rows, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) finish_index_key(step, m, x, r);
  });
}

}  // namespace

void mix(const StepState& step, const MixerRows& m, int layer, const Attention& a) {
  if (a.indexer.mean) average_index_keys(step, m, a.indexer);
  if (a.k_smoothing) smooth_keys_and_values(step, m, a);
  kv::Scoring scoring{a.scale, a.soft_cap, a.slopes.empty() ? nullptr : a.slopes.data(), a.sinks.bound,
                      a.rope < 0 ? nullptr : &step.rotations[static_cast<std::size_t>(a.rope)]};
  if (a.distances) scoring.distances = {m.distances, a.distances.profiles.bound, a.distances.width, a.distances.extent};
  if (a.row_sinks) scoring.row_sinks = m.row_sinks;
  if (step.reader) return step.reader->attend(layer, step.slices, m.q, m.heads, scoring);
  if (!step.cache) return attend_whole(step, m, a);
  if (a.indexer)
    step.cache->choose(step.cache->shape().at(layer).chosen_by, m.index_q, m.index_k,
                       a.indexer.weights ? m.index_weights : nullptr);
  step.cache->attend(layer, m.q, a.k ? m.k : nullptr, a.v || a.v_of_k ? m.v : nullptr, m.heads, scoring);
}

const float* finish(const StepState& step, const MixerRows& m, const cpu::Rows& rows, const Attention& a) {
  float* heads = m.heads + rows.first * a.o.columns;
  if (a.latent) {
    heads = m.head_inputs;
    cpu::HeadProducts(step.team, m.latent)
        .multiply(rows.count, a.heads, a.latent.up_v.bound, {m.heads, std::int64_t{a.heads} * a.dv, a.dv},
                  {heads, a.o.columns, a.latent.values});
  }
  if (a.gate) gate_heads(step, rows, a, heads);
  return heads;
}

}  // namespace kvasir::model
