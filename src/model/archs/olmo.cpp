// OLMo 1: layer norms without weights; queries, keys and values may be cut.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_olmo {

static ModelSpec describe(const Hparams& h) {
  const Norm norm{.kind = NormKind::kLayer, .width = h.dim(), .eps = h.layer_eps()};
  return layered(h, norm, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    Attention a = attention(n);
    a.clamp = static_cast<float>(h.number_or("attention.clamp_kqv", 0.0));
    return LayerSpec{.norm = norm, .mixer = a, .feed_norm = norm, .feed = gated(n, Activation::kSilu)};
  });
}

const Arch entry{
    .summary = "OLMo 1", .describe = describe, .hub = {{.types = {"olmo"}, .pairs = true, .read = hub::read_olmo}}};

}  // namespace kvasir::model::archs_olmo
