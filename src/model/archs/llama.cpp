// Llama 1 to 3.x, Mistral, SmolLM2: RoPE on adjacent pairs (the converter permuted the weights), optional biases. With
// experts Mixtral.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_llama {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    Attention a = attention(n);
    a.window = stated_window(h, n.layer());
    LayerSpec layer{.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm")};
    if (has_experts(h))
      layer.feed = experts(n, expert_width(h, h.ffn(n.layer())));
    else
      layer.feed = gated(n, Activation::kSilu);
    return layer;
  });
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
