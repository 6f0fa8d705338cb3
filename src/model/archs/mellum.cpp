// Mellum 2: Qwen 3 with experts, of whose layers some have a window and plain RoPE with a base of its own.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_mellum {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(l, 4);
    a.rope = a.window > 0 ? 1 : 0;
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = feed_by_router(n, Gating::kSoftmax, true)});
  }
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  m.ropes = {h.rope(kPairs, h.head_dim(0)),
             h.plain_rope(kPairs, h.head_dim(0), h.number_or("rope.freq_base_swa", 0.0))};
  return m;
}

const Arch entry{.summary = "Mellum 2",
                 .describe = describe,
                 .hub = {{.types = {"mellum"}, .turned = 1, .window = hub::Window::kOwn, .read = hub::read_mellum}}};

}  // namespace kvasir::model::archs_mellum
