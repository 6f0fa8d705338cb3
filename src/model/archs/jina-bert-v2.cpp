// Jina Embeddings 2 (arXiv:2310.19923): BERT with linear biases on both sides in place of positions, and gated feed
// forwards. Its model of code norms queries and keys, and attention's answer a second time.
#include <utility>

#include "model/blocks.hpp"

namespace kvasir::model::archs_jina_bert_v2 {
namespace {

Norm norm_of_row(const Names& n, std::string_view name) { return n.has(name) ? n.layer_norm(name) : Norm{}; }

// Gate and up in one tensor, in two, or no gate.
Dense feed(const Names& n) {
  const std::int64_t wide = n.h().ffn(n.layer());
  if (n.has("ffn_gate")) return gated(n, Activation::kGeluErf);
  if (width_of(n, "ffn_up", wide) == 2 * wide) {
    Dense d = fused_gated(n, Activation::kGeluErf);
    if (n.has("attn_norm_2")) std::swap(d.gate.cut, d.up.cut);  // of code: up before the gate
    return d;
  }
  return plain(n, Activation::kGeluErf, Bias::kIfPresent);
}

ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.rope = -1;
    a.slopes = linear_slopes(a.heads, 8.0);
    a.q_norm = norm_of_row(n, "attn_q_norm");
    a.k_norm = norm_of_row(n, "attn_k_norm");
    m.layers.push_back({.mixer = a,
                        .post_mixer = n.layer_norm("attn_output_norm"),
                        .feed = feed(n),
                        .post_feed = n.layer_norm("layer_output_norm"),
                        .norm_of_sums = true,
                        .post_sum = norm_of_row(n, "attn_norm_2")});
  }
  return m;
}

}  // namespace

const Arch entry = {"Jina Embeddings 2", describe};

}  // namespace kvasir::model::archs_jina_bert_v2
