// LFM2 of Liquid AI: short convolutions, and attention in the layers that have heads. The last norm is called
// token_embd_norm.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_lfm2 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("token_embd_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("ffn_norm"), .feed = gated(n, Activation::kSilu)};
    if (h.attends(l)) {
      Attention a = attention(n);
      norm_heads(n, a);
      a.window = h.window(l, 0);
      layer.mixer = a;
      if (m.ropes.empty()) m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, a.d)};
    } else {
      layer.mixer = short_conv(n);
    }
    m.layers.push_back(layer);
  }
  return m;
}

const Arch entry{.summary = "LFM2 and LFM2.5 (short convolutions)",
                 .describe = describe,
                 .hub = {{.types = {"lfm2"}, .names = hub::kLfm2, .read = hub::read_lfm2}}};

}  // namespace kvasir::model::archs_lfm2
