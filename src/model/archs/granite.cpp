// Granite: Llama with scales of embedding, residuals and logits (attention.scale is every architecture's). HyperCLOVA X
// has norms behind both parts besides.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_granite {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  scale_as_granite(h, m);
  const bool rotated = h.flag_or("rope.scaling.finetuned", true);  // false: no positions
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    if (!rotated) a.rope = -1;
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = gated(n, Activation::kSilu),
                        .residual_scale = static_cast<float>(h.number_or("residual_scale", 1.0))});
    if (n.has("post_attention_norm")) m.layers.back().post_mixer = n.rms("post_attention_norm");
    if (n.has("post_ffw_norm")) m.layers.back().post_feed = n.rms("post_ffw_norm");
  }
  if (rotated) m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

constexpr hub::Rename kNames[] = {{"post_norm1", "post_attention_norm"}, {"post_norm2", "post_ffw_norm"}};

const Arch entry{.summary = "Granite 3 and 4 (dense), HyperCLOVA X",
                 .describe = describe,
                 .hub = {{.types = {"granite"}, .pairs = true},
                         {.types = {"hyperclovax"}, .pairs = true, .names = kNames, .read = hub::read_hyperclova}}};

}  // namespace kvasir::model::archs_granite
