// Seed-OSS: Qwen 2 whose norm before the feed forward is called post_attention_norm.
#include "model/blocks.hpp"

namespace kvasir::model::archs_seed_oss {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = attention(n),
                        .feed_norm = n.rms("post_attention_norm"),
                        .feed = gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Seed-OSS",
                 .describe = describe,
                 .hub = {{.types = {"seed_oss"}, .post_norms = true, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_seed_oss
