// Llama 1 to 3.x, Mistral, SmolLM2: RoPE on adjacent pairs (the converter permuted the weights), optional biases.
#include "model/blocks.hpp"

namespace kvasir::model::entries::archs {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    const Attention a = attention(n, Bias::kIfPresent);
    m.layers.push_back(
        {.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

extern const Arch llama;
const Arch llama = {"Llama 1-3.x, Mistral, SmolLM2", describe};

}  // namespace kvasir::model::entries::archs
