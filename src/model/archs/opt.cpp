// OPT: learned positions, layer norms before each part or (350M) behind it, biases, ReLU. Only folders have it.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_opt {

static ModelSpec describe(const Hparams& h) {
  const bool before = h.flag_or("norm_before", true);
  ModelSpec m = around(h, before ? Names(h).layer_norm("output_norm", Bias::kIfPresent) : Norm{});
  m.embedding.positions = {"position_embd.weight", h.context(), h.dim()};
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    const Norm first = n.layer_norm("attn_norm", Bias::kIfPresent), second = n.layer_norm("ffn_norm", Bias::kIfPresent);
    Attention a = attention(n);
    a.rope = -1;
    LayerSpec layer{.mixer = a, .feed = plain(n, stated_activation(h, Activation::kRelu), Bias::kIfPresent)};
    (before ? layer.norm : layer.post_mixer) = first;
    (before ? layer.feed_norm : layer.post_feed) = second;
    layer.norm_of_sums = !before;
    m.layers.push_back(layer);
  }
  return m;
}

constexpr hub::Rename kNames[] = {{"self_attn_layer_norm", "attn_norm"},
                                  {"final_layer_norm", "ffn_norm"},
                                  {"self_attn.out_proj", "attn_output"},
                                  {"fc1", "ffn_up"},
                                  {"fc2", "ffn_down"}};

const Arch entry{
    .summary = "OPT", .describe = describe, .hub = {{.types = {"opt"}, .names = kNames, .read_all = hub::read_opt}}};

}  // namespace kvasir::model::archs_opt
