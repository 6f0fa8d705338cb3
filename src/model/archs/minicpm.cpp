// MiniCPM: Granite whose scales are always there, and whose divisor of logits has the same name.
#include <cmath>

#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_minicpm {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = llama_like_model(h, kernel::RopePairs::kAdjacent);
  // Files from before the keys are of MiniCPM 2B.
  m.embedding.scale = static_cast<float>(h.number_or("embedding_scale", 12.0));
  const double divisor = h.number_or("logit_scale", static_cast<double>(h.dim()) / 256.0);
  if (!(divisor > 0.0)) h.unsupported("logit_scale", "is not more than 0");
  m.head.scale = static_cast<float>(1.0 / divisor);
  const double residual = h.number_or("residual_scale", 1.4 / std::sqrt(static_cast<double>(h.layers())));
  for (LayerSpec& layer : m.layers) layer.residual_scale = static_cast<float>(residual);
  return m;
}

const Arch entry{.summary = "MiniCPM 1 and 2",
                 .describe = describe,
                 .hub = {{.types = {"minicpm"}, .pairs = true, .read = hub::read_minicpm}}};

}  // namespace kvasir::model::archs_minicpm
