// BLOOM: ALiBi, a layer norm of the embedding, biases everywhere.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_bloom {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).layer_norm("output_norm"));
  m.embedding.norm = Names(h).layer_norm("token_embd_norm");
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n, Bias::kRequired, Bias::kRequired);
    a.rope = -1;
    a.slopes = linear_slopes(a.heads, 8.0);
    m.layers.push_back(layer_normed_before(n, a, plain(n, Activation::kGeluTanh, Bias::kRequired)));
  }
  return m;
}

const Arch entry{.summary = "BLOOM",
                 .describe = describe,
                 .hub = {{.types = {"bloom"}, .names = hub::kByKvHead, .read_all = hub::read_bloom}}};

}  // namespace kvasir::model::archs_bloom
