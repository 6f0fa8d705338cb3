// The cache that a model needs.
#pragma once

#include "kv/cache.hpp"
#include "model/spec.hpp"

namespace kvasir::model {

// Whether the cache has local layers, soft caps, and layers that read another's keys and values. Tests of them wait for
// it (model/forward_test.cpp, tests/arch_probe.cpp).
inline constexpr bool kCacheHasClasses = false;

// Throws Error(kUnsupported) for a specification that needs what the cache cannot do.
kv::CacheShape cache_shape(const ModelSpec& spec);

}  // namespace kvasir::model
