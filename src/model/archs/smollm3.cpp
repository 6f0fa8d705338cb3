// SmolLM3: Llama in which every fourth layer has no positions.
#include "model/blocks.hpp"

namespace kvasir::model::archs_smollm3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = stated_window(h, l);
    a.rope = (l + 1) % 4 == 0 ? -1 : 0;
    m.layers.push_back(
        {.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "SmolLM3",
                 .describe = describe,
                 .hub = {{.types = {"smollm3"}, .pairs = true, .window = hub::Window::kStated}}};

}  // namespace kvasir::model::archs_smollm3
