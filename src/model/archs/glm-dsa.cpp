// GLM-5: DeepSeek V3.2's layers, with an index that turns its rows by adjacent pairs; layers may see what the index of
// an earlier one chose.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/latent_blocks.hpp"

namespace kvasir::model::archs_glm_dsa {

// Norms of latent rows have an eps of their own, as in transformers (GlmMoeDsaAttention).
static ModelSpec describe(const Hparams& h) {
  ModelSpec m = indexed_model(h, kernel::RopePairs::kAdjacent);
  for (LayerSpec& layer : m.layers) {
    auto& a = std::get<Attention>(layer.mixer);
    a.latent.down_norm.eps = a.k_norm.eps = 1e-6f;
  }
  return m;
}

const Arch entry{.summary = "GLM-5 (latent attention on the tokens that an index chooses)",
                 .describe = describe,
                 .hub = {{.types = {"glm_moe_dsa"}, .names = hub::kIndexer, .read = hub::read_indexed}}};

}  // namespace kvasir::model::archs_glm_dsa
