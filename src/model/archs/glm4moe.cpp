// GLM 4.5 to 4.7: the first layers are dense, the others experts with a shared one; sigmoid routing with a bias for the
// choice. post_attention_norm is the norm before the feed forward. Some have norms of query and key heads.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_glm4moe {

static LayerSpec block(const Hparams& h, int l) {
  const Names n(h, l);
  Attention a = attention(n);
  if (n.has("attn_q_norm")) norm_heads(n, a);
  LayerSpec layer{.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("post_attention_norm")};
  if (l < h.integer_or("leading_dense_block_count", 0, h.layers(), 0)) {
    layer.feed = gated(n, Activation::kSilu);
    return layer;
  }
  const std::int64_t width = h.integer("expert_feed_forward_length", 1, 1 << 24);
  Experts e = experts(n, width);
  read_gating(n, Gating::kSigmoid, false, e);
  const std::int64_t shared = h.integer("expert_shared_count", 0, 1 << 10);
  if (shared > 0) e.shared = shared_expert(n, shared * width);
  layer.feed = e;
  return layer;
}

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) { return block(h, n.layer()); });
}

const Arch entry{.summary = "GLM 4.5 to 4.7",
                 .describe = describe,
                 .block = block,
                 .hub = {{.types = {"glm4_moe", "solar_open"},
                          .turned = 1,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_glm4moe
