// Ling 2, Ring 2 and Sarvam: norms of heads; sigmoid routing with a bias for the choice, experts in groups, a shared
// one; the first layers are dense.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_bailingmoe2 {

static LayerSpec block(const Hparams& h, int l) {
  const Names n(h, l);
  Attention a = attention(n);
  norm_heads(n, a);
  return normed_before(n, a, feed_by_router(n, Gating::kSigmoid, true));
}

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) { return block(h, n.layer()); });
}

constexpr hub::Rename kNames[] = {{"attention.query_key_value", "attn_qkv"},
                                  {"attention.dense", "attn_output"},
                                  {"attention.query_layernorm", "attn_q_norm"},
                                  {"attention.key_layernorm", "attn_k_norm"},
                                  {"mlp.gate.expert_bias", "exp_probs_b.bias"}};

const Arch entry{.summary = "Ling 2, Ring 2 and Sarvam",
                 .describe = describe,
                 .block = block,
                 .hub = {{.types = {"sarvam_moe"}, .names = kNames, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_bailingmoe2
