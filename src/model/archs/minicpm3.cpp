// MiniCPM 3: latent attention whose rotated part has RoPE on halves, with scales of embedding, residuals and logits.
// Files lack these, which are those of the published model then.
#include <cmath>

#include "hub/config_reader.hpp"
#include "model/latent_blocks.hpp"

namespace kvasir::model::archs_minicpm3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = latent_model(h);
  for (Rope& rope : m.ropes) rope.pairs = kernel::RopePairs::kSplitHalf;
  m.embedding.scale = static_cast<float>(h.number_or("embedding_scale", 12.0));
  m.head.scale = static_cast<float>(1.0 / h.number_or("logit_scale", h.dim() / 256.0));
  for (LayerSpec& layer : m.layers)
    layer.residual_scale =
        static_cast<float>(h.number_or("residual_scale", 1.4 / std::sqrt(static_cast<double>(h.layers()))));
  return m;
}

const Arch entry{
    .summary = "MiniCPM 3", .describe = describe, .hub = {{.types = {"minicpm3"}, .read = hub::read_minicpm3}}};

}  // namespace kvasir::model::archs_minicpm3
