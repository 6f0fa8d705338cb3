// Gemma 3 (arXiv:2503.19786): five layers with a window and RoPE of their own, then one that sees everything.
#include <cmath>

#include "model/blocks.hpp"

namespace kvasir::model::archs_gemma3 {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 0.0));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.window = h.window(l, 6);
    a.rope = a.window > 0 ? 1 : 0;
    if (h.layers() == 62) a.scale = 1.0f / std::sqrt(static_cast<float>(h.dim() / a.heads));  // 27B
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .post_mixer = n.rms("post_attention_norm"),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = gated(n, Activation::kGeluTanh),
                        .post_feed = n.rms("post_ffw_norm")});
  }
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  m.ropes = {h.rope(kPairs, h.head_dim(0)),
             h.plain_rope(kPairs, h.head_dim(0), h.number_or("rope.freq_base_swa", 10000.0))};
  return m;
}

const Arch entry{.summary = "Gemma 3 (text)",
                 .describe = describe,
                 .hub = {{.types = {"gemma3", "gemma3_text"},
                          .one_more = true,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .activation = "gelu_pytorch_tanh"}}};

}  // namespace kvasir::model::archs_gemma3
