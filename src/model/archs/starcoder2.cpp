// StarCoder 2: layer norms and biases everywhere.
#include "model/blocks.hpp"

namespace kvasir::model::archs_starcoder2 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).layer_norm("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = stated_window(h, l);
    m.layers.push_back({.norm = n.layer_norm("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.layer_norm("ffn_norm"),
                        .feed = plain(n, Activation::kGeluTanh, Bias::kIfPresent)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

constexpr hub::Rename kNames[] = {{"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};

const Arch entry{
    .summary = "StarCoder 2",
    .describe = describe,
    .hub = {
        {.types = {"starcoder2"}, .window = hub::Window::kStated, .activation = "gelu_pytorch_tanh", .names = kNames}}};

}  // namespace kvasir::model::archs_starcoder2
