// Nomic Embed 2 (arXiv:2502.07972): BERT with RoPE, and in every second layer experts without a gate.
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_nomic_bert_moe {
namespace {

Feed feed(const Names& n, std::int64_t every) {
  const Hparams& h = n.h();
  if (every == 0 || n.layer() % every != 1) return plain(n, Activation::kGeluErf, Bias::kIfPresent);
  Experts e;
  e.routing.count = static_cast<int>(h.integer("expert_count", 1, 4096));
  e.routing.used = static_cast<int>(h.integer("expert_used_count", 1, e.routing.count));
  e.routing.normalise = false;
  e.router = n.linear("ffn_gate_inp", e.routing.count, h.dim());
  e.activation = Activation::kGeluErf;
  const std::int64_t wide = h.ffn(n.layer());
  e.up = {.name = n.full("ffn_up_exps"), .count = e.routing.count, .rows = wide, .columns = h.dim()};
  e.down = {.name = n.full("ffn_down_exps"), .count = e.routing.count, .rows = h.dim(), .columns = wide};
  return e;
}

ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  const std::int64_t every = h.integer_or("moe_every_n_layers", 0, 4096, 0);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back(norms_of_sums(n, attention(n), feed(n, every)));
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

}  // namespace

const Arch entry = {"Nomic Embed 2 (embeddings)", describe};

}  // namespace kvasir::model::archs_nomic_bert_moe
