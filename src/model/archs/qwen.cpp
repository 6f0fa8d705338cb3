// The first Qwen: one matrix of queries, keys and values with biases, none elsewhere. Files give the width of both
// halves of the feed forward together.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    return normed_before(n, fused_attention(n, Bias::kRequired, Bias::kNone),
                         gated(n, Activation::kSilu, Bias::kNone, width_of(n, "ffn_up", h.ffn(n.layer()) / 2)));
  });
}

constexpr hub::Rename kNames[] = {{"ln_1", "attn_norm"},          {"ln_2", "ffn_norm"},   {"attn.c_attn", "attn_qkv"},
                                  {"attn.c_proj", "attn_output"}, {"mlp.w2", "ffn_gate"}, {"mlp.w1", "ffn_up"},
                                  {"mlp.c_proj", "ffn_down"}};

const Arch entry{.summary = "Qwen (the first)",
                 .describe = describe,
                 .hub = {{.types = {"qwen"}, .names = kNames, .read = hub::read_qwen}}};

}  // namespace kvasir::model::archs_qwen
