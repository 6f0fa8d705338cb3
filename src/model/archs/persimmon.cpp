// Persimmon (Adept): layer norms, also of every query and key head; RoPE on a part of heads; one matrix of queries,
// keys and values by head; a squared ReLU between two matrices. Biases everywhere.
#include "model/blocks.hpp"

namespace kvasir::model::archs_persimmon {

// One weight and one bias of d elements, which all heads share.
static Norm of_heads(const Names& n, std::string_view name, std::int64_t d) {
  if (!n.has(name)) return {};
  Norm norm = n.layer_norm(name);
  norm.width = norm.weight.columns = norm.bias.columns = d;
  return norm;
}

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n, Bias::kRequired, Bias::kRequired);
    a.q_norm = of_heads(n, "attn_q_norm", a.d);
    a.k_norm = of_heads(n, "attn_k_norm", a.d);
    return layer_normed_before(n, a, plain(n, Activation::kRelu2, Bias::kRequired));
  });
}

constexpr hub::Rename kNames[] = {{"self_attn.query_key_value", "attn_qkv", hub::Make::kByHead},
                                  {"self_attn.dense", "attn_output"},
                                  {"self_attn.q_layernorm", "attn_q_norm"},
                                  {"self_attn.k_layernorm", "attn_k_norm"},
                                  {"mlp.dense_h_to_4h", "ffn_up"},
                                  {"mlp.dense_4h_to_h", "ffn_down"}};

const Arch entry{.summary = "Persimmon",
                 .describe = describe,
                 .hub = {{.types = {"persimmon"}, .turned = 0.5, .activation = "relu2", .names = kNames}}};

}  // namespace kvasir::model::archs_persimmon
