// Seed-OSS: Qwen 2 whose norm before the feed forward is called post_attention_norm.
#include "model/blocks.hpp"

namespace kvasir::model::archs_seed_oss {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    return LayerSpec{.norm = n.rms("attn_norm"),
                     .mixer = attention(n),
                     .feed_norm = n.rms("post_attention_norm"),
                     .feed = gated(n, Activation::kSilu)};
  });
}

const Arch entry{.summary = "Seed-OSS",
                 .describe = describe,
                 .hub = {{.types = {"seed_oss"}, .post_norms = true, .window = hub::Window::kOwn}}};

}  // namespace kvasir::model::archs_seed_oss
