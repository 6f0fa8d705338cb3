// Qwen3-Next: Qwen 3.5 with experts, whose value heads are grouped by key heads.
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::entries::archs {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("post_attention_norm")};
    if (is_delta(h, l)) {
      Delta d = delta(n);
      d.tiled = false;
      layer.mixer = d;
    } else {
      layer.mixer = gated_attention(n);
    }
    layer.feed = qwen_experts(n);
    m.layers.push_back(layer);
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

extern const Arch qwen3next;
const Arch qwen3next = {"Qwen3-Next (gated DeltaNet, experts)", describe};

}  // namespace kvasir::model::entries::archs
