#include "model/cache_shape.hpp"

#include <variant>

namespace kvasir::model {

kv::CacheShape cache_shape(const ModelSpec& spec) {
  kv::CacheShape shape;
  for (const LayerSpec& layer : spec.layers) {
    const auto& a = std::get<Attention>(layer.mixer);
    shape.layers.push_back({a.kv_heads, a.heads, a.d, a.dv, a.window, a.kv_of, static_cast<bool>(a.latent), a.chunked});
  }
  return shape;
}

}  // namespace kvasir::model
