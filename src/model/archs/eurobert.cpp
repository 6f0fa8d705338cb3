// EuroBERT (arXiv:2503.05500), also the base of Jina's fifth embeddings: Llama whose tokens see all of their text.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_eurobert {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = llama_like_model(h, kernel::RopePairs::kSplitHalf);
  m.causal = false;
  m.rank.act = Rank::Act::kGelu;
  m.rank.pooling = rank_pooling(h, Pooling::kNone);
  return m;
}

const Arch entry{.summary = "EuroBERT (embeddings, ranking)",
                 .describe = describe,
                 .hub = {{.types = {"eurobert"}, .encoder = true, .read = hub::read_eurobert}}};

}  // namespace kvasir::model::archs_eurobert
