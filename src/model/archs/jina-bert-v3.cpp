// Jina Embeddings 3 (arXiv:2409.10173): XLM-RoBERTa with RoPE. Its adapters of tasks are files of their own.
#include "hub/config_reader.hpp"
#include "hub/encoder_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_jina_bert_v3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back(norms_of_sums(n, attention(n), plain(n, Activation::kGeluErf, Bias::kIfPresent)));
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{
    .summary = "Jina Embeddings 3",
    .describe = describe,
    .hub = {{.types = {"jina_embeddings_v3"}, .encoder = true, .names = hub::kWqkv, .read_all = hub::read_jina_v3}}};

}  // namespace kvasir::model::archs_jina_bert_v3
