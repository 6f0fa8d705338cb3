// gpt-oss: biases everywhere, sinks, every second layer with a window, the first one too. All feed forwards are experts
// with a clamped gate. post_attention_norm is the norm before them.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_gpt_oss {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  h.integer("attention.sliding_window", 1, std::int64_t{1} << 40);  // without it no layer would have its kind
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n, Bias::kRequired, Bias::kRequired);
    a.window = h.window(l, 2);
    a.sinks = n.vector("attn_sinks.weight", a.heads);
    Experts e = experts(n, expert_width(h, h.ffn(l)), Activation::kClampedSilu, Bias::kRequired);
    e.routing.gating = Gating::kSoftmaxOfChosen;
    m.layers.push_back({.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("post_attention_norm"), .feed = e});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0), false)};
  return m;
}

constexpr hub::Rename kNames[] = {{"mlp.router", "ffn_gate_inp"},
                                  {"mlp.experts.gate_up_proj", "ffn_*_exps.weight", hub::Make::kTurns},
                                  {"mlp.experts.gate_up_proj_bias", "ffn_*_exps.bias", hub::Make::kTurns},
                                  {"mlp.experts.down_proj", "ffn_down_exps.weight", hub::Make::kTurned},
                                  {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"}};

const Arch entry{.summary = "gpt-oss",
                 .describe = describe,
                 .hub = {{.types = {"gpt_oss"},
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .names = kNames,
                          .read = hub::read_gpt_oss}}};

}  // namespace kvasir::model::archs_gpt_oss
