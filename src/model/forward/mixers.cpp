#include "model/forward/mixers.hpp"

#include <algorithm>

#include "kernel/bidirectional.hpp"

namespace kvasir::model {

void widen(MixerWidths& w, const kv::RecurrentShape& shape) {
  w.channels = std::max<std::int64_t>(w.channels, shape.channels);
  w.steps = std::max<std::int64_t>(w.steps, shape.gates());
  w.states = std::max<std::int64_t>(w.states, shape.outputs());
  w.z = std::max<std::int64_t>(w.z, shape.outputs());
}

MixerRows MixerRows::place(ScratchPlan& plan) {
  const ModelSpec& spec = plan.spec;
  MixerWidths w;
  std::int64_t beside = 0;
  int d = 0, dv = 0;
  for (const LayerSpec& layer : spec.layers) {
    each_mixer(layer, [&](const auto& mixer) { widen(w, mixer); });
    if (layer.beside) beside = spec.dim;
    if (layer.mixer_smoothing || layer.feed_smoothing) w.smoothed = std::max<std::int64_t>(w.smoothed, spec.dim);
    w.smoothed = std::max(w.smoothed, layer.ngrams.convolution.convolution.channels);
    w.smoothed = std::max(w.smoothed, layer.ngrams.ids.convolution.channels);
    if (const auto* a = std::get_if<Attention>(&layer.mixer)) d = std::max(d, a->d), dv = std::max(dv, a->dv);
  }
  plan.gates = std::max(plan.gates, w.gates);
  plan.widths.dim = std::max(plan.widths.dim, w.low);  // it is normed
  plan.widths.input = std::max({plan.widths.input, w.heads, w.head_inputs, w.low, w.states});
  MixerRows m{};
  m.q = plan.rows(w.q);
  m.k = plan.rows(w.k);
  m.v = plan.rows(w.v);
  m.heads = plan.rows(w.heads);
  m.low = plan.rows(w.low);
  m.own = plan.rows(w.own);
  m.head_inputs = plan.rows(w.head_inputs);
  m.latent = cpu::HeadScratch::place(w.latent_heads, w.latent_width, plan.max_tokens, plan.placer);
  m.index_q = plan.rows(w.index_q);
  m.index_k = plan.rows(w.index_k);
  m.index_weights = plan.rows(w.index_weights);
  m.smoothed = plan.rows(w.smoothed);
  m.k_taps = plan.rows(w.k_taps);
  m.v_taps = plan.rows(w.v_taps);
  m.distances = plan.rows(w.distances);
  m.row_sinks = plan.rows(w.row_sinks);
  if (!spec.causal) {
    m.whole_stride = kernel::whole_head_scratch(plan.max_tokens, d, dv);
    m.whole = plan.placer.take<float>(plan.threads * m.whole_stride);
  }
  m.channels = plan.rows(w.channels);
  m.steps = plan.rows(w.steps);
  m.mixed = plan.rows(w.mixed);
  m.all_z = plan.rows(w.z);
  m.z_width = w.z;
  m.states = plan.rows(w.states);
  m.beside = plan.rows(beside);
  return m;
}

}  // namespace kvasir::model
