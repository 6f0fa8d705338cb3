// LFM2 with experts in all but the first layers.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_lfm2moe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("token_embd_norm"));
  const std::int64_t dense = h.integer_or("leading_dense_block_count", 0, 4096, 0);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("ffn_norm")};
    if (h.attends(l)) {
      Attention a = attention(n);
      norm_heads(n, a);
      a.window = h.window(l, 0);
      layer.mixer = a;
      if (m.ropes.empty()) m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, a.d)};
    } else {
      layer.mixer = short_conv(n);
    }
    if (l < dense) {
      layer.feed = gated(n, Activation::kSilu);
    } else {
      Experts e = experts(n, expert_width(h, h.ffn(l)));
      read_gating(n, Gating::kSigmoid, true, e);
      layer.feed = e;
    }
    m.layers.push_back(layer);
  }
  return m;
}

const Arch entry{.summary = "LFM2 with experts",
                 .describe = describe,
                 .hub = {{.types = {"lfm2_moe"}, .names = hub::kLfm2, .read = hub::read_lfm2}}};

}  // namespace kvasir::model::archs_lfm2moe
