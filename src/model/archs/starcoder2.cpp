// StarCoder 2: layer norms and biases everywhere.
#include "model/blocks.hpp"

namespace kvasir::model::archs_starcoder2 {

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    a.window = stated_window(h, n.layer());
    return layer_normed_before(n, a, plain(n, Activation::kGeluTanh, Bias::kIfPresent));
  });
}

constexpr hub::Rename kNames[] = {{"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};

const Arch entry{
    .summary = "StarCoder 2",
    .describe = describe,
    .hub = {
        {.types = {"starcoder2"}, .window = hub::Window::kStated, .activation = "gelu_pytorch_tanh", .names = kNames}}};

}  // namespace kvasir::model::archs_starcoder2
