// EmbeddingGemma (arXiv:2509.20354): Gemma 3 whose tokens see all of their text, or a window on both sides of them.
#include "model/blocks.hpp"

namespace kvasir::model::archs_gemma_embedding {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = gemma3_model(h);
  m.causal = false;
  return m;
}

const Arch entry = {"EmbeddingGemma", describe};

}  // namespace kvasir::model::archs_gemma_embedding
