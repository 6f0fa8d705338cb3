#include "model/cache_shape.hpp"

#include <cmath>
#include <variant>

namespace kvasir::model {

kv::RecurrentShape recurrent_shape(const ShortConv& c) {
  return {.channels = static_cast<int>(c.convolution.channels), .taps = c.convolution.taps};
}

kv::RecurrentShape recurrent_shape(const Delta& d) {
  return {static_cast<int>(d.convolution.channels), d.convolution.taps, d.value_heads, d.key_heads, d.d, d.dv};
}

kv::RecurrentShape recurrent_shape(const Mamba2& m) {
  return {static_cast<int>(m.convolution.channels), m.convolution.taps, m.heads, m.groups, m.state, m.head_dim};
}

kv::RecurrentShape recurrent_shape(const LayerSpec& layer) {
  if (layer.beside) return recurrent_shape(layer.beside);
  if (const auto* c = std::get_if<ShortConv>(&layer.mixer)) return recurrent_shape(*c);
  if (const auto* d = std::get_if<Delta>(&layer.mixer)) return recurrent_shape(*d);
  if (const auto* m = std::get_if<Mamba2>(&layer.mixer)) return recurrent_shape(*m);
  return {};
}

kv::Recurrent recurrence_of(const ShortConv& c) {
  return {.taps = c.convolution.weight.bound, .bias = c.convolution.bias.bound, .silu = false};
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
  for (const LayerSpec& layer : spec.layers) {
    kv::LayerShape s;
    if (const auto* a = std::get_if<Attention>(&layer.mixer))
      s = {a->kv_heads, a->heads, a->d, a->dv, a->window, a->kv_of, static_cast<bool>(a->latent), a->chunked};
    s.recurrent = recurrent_shape(layer);
    shape.layers.push_back(s);
  }
  return shape;
}

}  // namespace kvasir::model
