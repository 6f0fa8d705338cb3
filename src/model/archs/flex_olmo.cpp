// FlexOlmo: OLMo 2 with experts. Only folders have it.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_flex_olmo {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.q_norm = n.rms("attn_q_norm", a.q.rows);
    a.k_norm = n.rms("attn_k_norm", a.k.rows);
    m.layers.push_back({.mixer = a,
                        .post_mixer = n.rms("post_attention_norm"),
                        .feed = feed_by_router(n, Gating::kSoftmax, false),
                        .post_feed = n.rms("post_ffw_norm")});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{
    .summary = "FlexOlmo",
    .describe = describe,
    .hub = {{.types = {"flex_olmo"}, .post_norms = true, .window = hub::Window::kOwn, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_flex_olmo
