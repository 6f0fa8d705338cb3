// LFM3 of Liquid AI: LFM2's short convolutions, and attention that sees everything or has a window; these turn heads
// otherwise. A gate for each head, norms behind the mixer and the feed forward, too. Only folders have it.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_lfm3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("token_embd_norm"));
  const bool sandwich = h.flag_or("sandwich_norms", true), has_gates = h.flag_or("attention.gated", true);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("ffn_norm"), .feed = gated(n, Activation::kSilu)};
    if (sandwich) {
      layer.post_mixer = n.rms("post_attention_norm");
      layer.post_feed = n.rms("post_ffw_norm");
    }
    if (h.attends(l)) {
      Attention a = attention(n);
      norm_heads(n, a);
      if (has_gates) a.gate = n.linear("attn_gate", a.heads, h.dim());
      a.window = h.window(l, 0);
      a.rope = a.window > 0 ? 1 : 0;
      layer.mixer = a;
    } else {
      layer.mixer = short_conv(n);
    }
    m.layers.push_back(layer);
  }
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  m.ropes = {h.rope(kPairs, h.head_dim(0)),
             h.plain_rope(kPairs, h.head_dim(0), h.number_or("rope.freq_base_swa", 10000.0))};
  return m;
}

const Arch entry{.summary = "LFM3 (short convolutions, windows)",
                 .describe = describe,
                 .hub = {{.types = {"lfm3"}, .names = hub::kLfm2, .read = hub::read_lfm3}}};

}  // namespace kvasir::model::archs_lfm3
