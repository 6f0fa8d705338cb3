#include "model/cache_shape.hpp"

#include "base/error.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {

kv::CacheShape cache_shape(const ModelSpec& spec) {
  kv::CacheShape shape{.layers = spec.layer_count()};
  for (const LayerSpec& layer : spec.layers) {
    const auto& a = std::get<Attention>(layer.mixer);
    const kv::CacheShape own{shape.layers, a.kv_heads, a.heads, a.d, a.dv};
    if (&layer == &spec.layers[0]) shape = own;
    const auto refuse = [&](const char* what) {
      throw Error(Code::kUnsupported, std::string("the cache has no ") + what, spec.arch);
    };
    if (own.kv_heads != shape.kv_heads || own.query_heads != shape.query_heads || own.head_dim != shape.head_dim ||
        own.head_dim_v != shape.head_dim_v)
      refuse("layers of different shapes");
    if (a.window > 0) refuse("local layers");
    if (a.soft_cap > 0) refuse("soft caps");
    if (a.kv_of >= 0) refuse("layers that share keys and values");
  }
  return shape;
}

}  // namespace kvasir::model
