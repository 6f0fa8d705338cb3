// The first Qwen: one matrix of queries, keys and values with biases, none elsewhere. Files give the width of both
// halves of the feed forward together.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_qwen {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = fused_attention(n, Bias::kRequired, Bias::kNone),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = gated(n, Activation::kSilu, Bias::kNone, width_of(n, "ffn_up", h.ffn(l) / 2))});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

constexpr hub::Rename kNames[] = {{"ln_1", "attn_norm"},          {"ln_2", "ffn_norm"},   {"attn.c_attn", "attn_qkv"},
                                  {"attn.c_proj", "attn_output"}, {"mlp.w2", "ffn_gate"}, {"mlp.w1", "ffn_up"},
                                  {"mlp.c_proj", "ffn_down"}};

const Arch entry{.summary = "Qwen (the first)",
                 .describe = describe,
                 .hub = {{.types = {"qwen"}, .names = kNames, .read = hub::read_qwen}}};

}  // namespace kvasir::model::archs_qwen
