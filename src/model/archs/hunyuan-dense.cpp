// Hunyuan, dense: RMS norm of every query and key head after RoPE.
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_hunyuan_dense {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.norm_after_rope = true;
    m.layers.push_back(
        {.norm = n.rms("attn_norm"), .mixer = a, .feed_norm = n.rms("ffn_norm"), .feed = gated(n, Activation::kSilu)});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Hunyuan (dense)",
                 .describe = describe,
                 .hub = {{.types = {"hunyuan_v1_dense"}, .names = hub::kHunyuan}}};

}  // namespace kvasir::model::archs_hunyuan_dense
