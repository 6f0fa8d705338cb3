#include "model/cache_shape.hpp"

#include <cmath>
#include <variant>

#include "base/check.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {

kv::RecurrentShape recurrent_shape(const ShortConv& c) {
  return {.channels = static_cast<int>(c.convolution.channels), .taps = c.convolution.taps};
}

kv::RecurrentShape recurrent_shape(const Smoothing& s) {
  return {.channels = static_cast<int>(s.convolution.channels),
          .taps = s.convolution.taps,
          .dilation = s.convolution.dilation};
}

kv::RecurrentShape recurrent_shape(const Delta& d) {
  return {static_cast<int>(d.convolution.channels), d.convolution.taps, d.value_heads, d.key_heads, d.d, d.dv};
}

kv::RecurrentShape recurrent_shape(const KeyedDelta& d) {
  return {.channels = d.heads * (2 * d.d + d.dv),
          .taps = d.q_convolution.taps,
          .heads = d.heads,
          .key_heads = d.heads,
          .key_dim = d.d,
          .value_dim = d.dv,
          .forgetting = kv::Forgetting::kByKey};
}

// Channels that a thread takes together: at most 64, so that there is work for all.
static int channels_at_once(int channels) {
  for (int n = 64; n > 1; --n)
    if (channels % n == 0) return n;
  return 1;
}

kv::RecurrentShape recurrent_shape(const Mamba& m) {
  const int each = channels_at_once(m.channels);
  return {.channels = m.channels,
          .taps = m.convolution.taps,
          .heads = m.channels / each,
          .key_heads = 1,
          .key_dim = m.state,
          .value_dim = each,
          .forgetting = kv::Forgetting::kByElement};
}

kv::RecurrentShape recurrent_shape(const Mamba2& m) {
  return {static_cast<int>(m.convolution.channels), m.convolution.taps, m.heads, m.groups, m.state, m.head_dim};
}

kv::RecurrentShape recurrent_shape(const LayerSpec& layer) {
  if (layer.beside) return recurrent_shape(layer.beside);
  if (const auto* c = std::get_if<ShortConv>(&layer.mixer)) return recurrent_shape(*c);
  if (const auto* d = std::get_if<Delta>(&layer.mixer)) return recurrent_shape(*d);
  if (const auto* d = std::get_if<KeyedDelta>(&layer.mixer)) return recurrent_shape(*d);
  if (const auto* m = std::get_if<Mamba>(&layer.mixer)) return recurrent_shape(*m);
  if (const auto* m = std::get_if<Mamba2>(&layer.mixer)) return recurrent_shape(*m);
  return {};
}

kv::Recurrent recurrence_of(const ShortConv& c) {
  return {.taps = c.convolution.weight.bound, .bias = c.convolution.bias.bound, .silu = false};
}

kv::Recurrent recurrence_of(const Smoothing& s) {
  const Convolution& c = s.convolution;
  return {.taps = c.fixed.empty() ? c.weight.bound : c.fixed.data(), .silu = s.silu, .groups = s.groups};
}

kv::Recurrent recurrence_of(const Delta& d) {
  const std::int64_t keys = std::int64_t{d.key_heads} * d.d;
  return {.taps = d.convolution.weight.bound,
          .bias = d.convolution.bias.bound,
          .q = 0,
          .k = keys,
          .v = 2 * keys,
          .tiled = d.tiled,
          .delta = true,
          .least_length = d.eps,
          .query_scale = 1.0f / std::sqrt(static_cast<float>(d.d))};
}

kv::Recurrent recurrence_of(const KeyedDelta& d) {
  const std::int64_t keys = std::int64_t{d.heads} * d.d;
  return {.q_taps = d.q_convolution.weight.bound,
          .k_taps = d.k_convolution.weight.bound,
          .v_taps = d.v_convolution.weight.bound,
          .q = 0,
          .k = keys,
          .v = 2 * keys,
          .delta = true,
          .least_length = d.eps,
          .query_scale = 1.0f / std::sqrt(static_cast<float>(d.d))};
}

kv::Recurrent recurrence_of(const Mamba& m) {
  return {.taps = m.convolution.weight.bound,
          .bias = m.convolution.bias.bound,
          .skip = m.skip.bound,
          .rates = m.decay.bound};
}

kv::Recurrent recurrence_of(const Mamba2& m) {
  const std::int64_t values = std::int64_t{m.heads} * m.head_dim;
  return {.taps = m.convolution.weight.bound,
          .bias = m.convolution.bias.bound,
          .q = values + std::int64_t{m.groups} * m.state,
          .k = values,
          .v = 0,
          .skip = m.skip.bound};
}

kv::CacheShape cache_shape(const ModelSpec& spec) {
  kv::CacheShape shape;
  std::vector<int> index_of;  // by layer
  for (const LayerSpec& layer : spec.layers) {
    kv::LayerShape s;
    if (const auto* a = std::get_if<Attention>(&layer.mixer)) {
      s = {a->kv_heads, a->heads, a->d, a->dv, a->window, a->kv_of, static_cast<bool>(a->latent), a->chunked};
      index_of.push_back(static_cast<int>(shape.indexes.size()));
      if (a->indexer) shape.indexes.push_back({a->indexer.heads, a->indexer.d, a->indexer.top, a->indexer.block});
      if (a->chosen_by >= 0) s.chosen_by = index_of.at(static_cast<std::size_t>(a->chosen_by));
    } else {
      index_of.push_back(-1);
    }
    s.recurrent = recurrent_shape(layer);
    shape.layers.push_back(s);
  }
  for_each<Smoothing>(spec, [&](const Smoothing& s) {
    KVASIR_CHECK(s.state == shape.count() - spec.layer_count());
    shape.layers.push_back({.recurrent = recurrent_shape(s)});
  });
  return shape;
}

}  // namespace kvasir::model
