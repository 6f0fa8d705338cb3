// The cache that a model needs.
#pragma once

#include "kv/cache.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

kv::CacheShape cache_shape(const ModelSpec& spec);

}  // namespace kvasir::model
