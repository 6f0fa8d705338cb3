// The cache that a model needs.
#pragma once

#include "kv/cache.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

// One layer for each of the model's, then one for each of its smoothings, in their order.
kv::CacheShape cache_shape(const ModelSpec& spec);

kv::RecurrentShape recurrent_shape(const ShortConv& c);
kv::RecurrentShape recurrent_shape(const Smoothing& s);
kv::RecurrentShape recurrent_shape(const Delta& d);
kv::RecurrentShape recurrent_shape(const KeyedDelta& d);
kv::RecurrentShape recurrent_shape(const Mamba& m);
kv::RecurrentShape recurrent_shape(const Mamba2& m);
// Of a layer that has one of these; else its shape is false.
kv::RecurrentShape recurrent_shape(const LayerSpec& layer);

// What the cache computes with their rows. REQUIRES: the specification is bound.
kv::Recurrent recurrence_of(const ShortConv& c);
kv::Recurrent recurrence_of(const Smoothing& s);
kv::Recurrent recurrence_of(const Delta& d);
kv::Recurrent recurrence_of(const KeyedDelta& d);
kv::Recurrent recurrence_of(const Mamba& m);
kv::Recurrent recurrence_of(const Mamba2& m);

}  // namespace kvasir::model
