// Nomic Embed (arXiv:2402.01613): BERT with RoPE and gated feed forwards.
#include "hub/config_reader.hpp"
#include "hub/encoder_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_nomic_bert {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back(norms_of_sums(n, attention(n), gated(n, Activation::kSilu)));
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{
    .summary = "Nomic Embed (embeddings)",
    .describe = describe,
    .hub = {{.types = {"nomic_bert"}, .encoder = true, .names = hub::kWqkv, .read_all = hub::read_nomic_bert}}};

}  // namespace kvasir::model::archs_nomic_bert
