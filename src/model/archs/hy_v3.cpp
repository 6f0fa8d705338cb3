// Hunyuan 3: norms of heads; a dense layer, then experts beside a shared one, scored by sigmoid.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_hy_v3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = feed_by_router(n, Gating::kSigmoid, true)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Hunyuan 3",
                 .describe = describe,
                 .hub = {{.types = {"hy_v3"}, .names = hub::kAfmoe, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_hy_v3
