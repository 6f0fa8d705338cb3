// Llama 1 to 3.x, Mistral, SmolLM2: RoPE on adjacent pairs (the converter permuted the weights), optional biases. With
// experts Mixtral.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_llama {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = stated_window(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm")};
    if (has_experts(h))
      layer.feed = experts(n, expert_width(h, h.ffn(l)));
    else
      layer.feed = gated(n, Activation::kSilu);
    m.layers.push_back(layer);
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry{
    .summary = "Llama 1-3.x, Mistral, Mixtral, SmolLM2",
    .describe = describe,
    .hub = {
        {.types = {"cwm", "internlm3", "llama", "ministral", "mistral"}, .pairs = true, .window = hub::Window::kStated},
        {.types = {"helium"}, .window = hub::Window::kStated},
        {.types = {"iquestcoder"}, .pairs = true, .window = hub::Window::kStated, .read = hub::read_iquest},
        {.types = {"mixtral"}, .pairs = true, .window = hub::Window::kStated, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_llama
