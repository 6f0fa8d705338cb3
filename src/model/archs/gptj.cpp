// GPT-J: attention and feed forward side by side on one layer norm, no biases in attention, RoPE on adjacent pairs of a
// part of heads. Only folders have it.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_gptj {

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kAdjacent, [&](const Names& n) {
    return layer_normed_beside(n, attention(n), plain(n, Activation::kGeluTanh, Bias::kRequired));
  });
}

constexpr hub::Rename kNames[] = {{"ln_1", "attn_norm"},
                                  {"attn.q_proj", "attn_q"},
                                  {"attn.k_proj", "attn_k"},
                                  {"attn.v_proj", "attn_v"},
                                  {"attn.qkv_proj", "attn_qkv", hub::Make::kByFour},
                                  {"mlp.fc_in", "ffn_up"},
                                  {"mlp.fc_out", "ffn_down"},
                                  {"attn.out_proj", "attn_output"}};

const Arch entry{.summary = "GPT-J",
                 .describe = describe,
                 .hub = {{.types = {"codegen", "gptj"}, .names = kNames, .read_all = hub::read_gptj}}};

}  // namespace kvasir::model::archs_gptj
