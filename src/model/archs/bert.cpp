// BERT (arXiv:1810.04805) and its children (RoBERTa, XLM-R, MiniLM, BGE, E5): every token sees all of its text, learned
// positions, norms of the sums.
#include "hub/config_reader.hpp"
#include "hub/encoder_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_bert {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  m.embedding.positions = {"position_embd.weight", h.context(), h.dim()};
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.rope = -1;
    m.layers.push_back(norms_of_sums(n, a, plain(n, Activation::kGeluErf, Bias::kIfPresent)));
  }
  if (h.flag_or("classifier.relu", false)) m.rank.act = Rank::Act::kRelu;  // DistilBERT's folders
  return m;
}

const Arch entry{
    .summary = "BERT (embeddings, ranking)",
    .describe = describe,
    .hub = {{.types = {"bert"}, .encoder = true, .names = hub::kBert, .read_all = hub::read_bert},
            {.types = {"camembert", "roberta", "xlm-roberta"},
             .encoder = true,
             .behind_two = true,
             .names = hub::kBert,
             .read_all = hub::read_bert},
            {.types = {"distilbert"}, .encoder = true, .names = hub::kDistilBert, .read_all = hub::read_bert}}};

}  // namespace kvasir::model::archs_bert
