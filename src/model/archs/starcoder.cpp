// StarCoder: GPT-2 whose queries may share one key and value.
#include "model/blocks.hpp"

namespace kvasir::model::archs_starcoder {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).layer_norm("output_norm"));
  m.embedding.positions = {"position_embd.weight", h.context(), h.dim()};
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n, Bias::kRequired, Bias::kRequired);
    a.rope = -1;
    m.layers.push_back(
        {.norm = n.layer_norm("attn_norm"),
         .mixer = a,
         .feed_norm = n.layer_norm("ffn_norm"),
         .feed = plain(n, stated_activation(h, Activation::kGeluTanh), Bias::kRequired, width_of(n, "ffn_up", 0))});
  }
  return m;
}

const Arch entry = {"StarCoder, SantaCoder", describe};

}  // namespace kvasir::model::archs_starcoder
