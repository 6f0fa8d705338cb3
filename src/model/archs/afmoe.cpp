// AFMoE (Trinity): three layers with a window and RoPE, then one that sees everything and has no positions; a gate for
// every element of attention's heads; norms before and behind both parts; experts beside a shared one.
#include <cmath>

#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_afmoe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  m.embedding.scale = static_cast<float>(h.number_or("embedding_scale", std::sqrt(static_cast<double>(h.dim()))));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    norm_heads(n, a);
    a.gate = n.linear("attn_gate", a.o.columns, h.dim());
    a.window = h.window(l, 4);
    if (a.window == 0) a.rope = -1;
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .post_mixer = n.rms("post_attention_norm"),
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = feed_by_router(n, Gating::kSigmoid, true),
                        .post_feed = n.rms("post_ffw_norm")});
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "AFMoE (Trinity)",
                 .describe = describe,
                 .hub = {{.types = {"afmoe"},
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .names = hub::kAfmoe,
                          .read = hub::read_afmoe}}};

}  // namespace kvasir::model::archs_afmoe
