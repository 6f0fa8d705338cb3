// Mistral 4: DeepSeek V2's layers, with queries that grow at long contexts.
#include "model/hparams.hpp"
#include "model/latent_blocks.hpp"

namespace kvasir::model::archs_mistral4 {

// Files converted from folders do not say how queries grow; the model's do by 0.1.
static ModelSpec describe(const Hparams& h) {
  ModelSpec m = latent_model(h);
  if (h.has("attention.temperature_scale")) return m;
  const std::int64_t original =
      h.integer_or("rope.scaling.original_context_length", 1, std::int64_t{1} << 30, h.context());
  for (LayerSpec& layer : m.layers)
    if (auto* const a = std::get_if<Attention>(&layer.mixer)) a->temperature = {0.1f, 0, original};
  return m;
}

const Arch entry{.summary = "Mistral 4", .describe = describe};

}  // namespace kvasir::model::archs_mistral4
