// Falcon: attention and feed forward side by side on one layer norm, or (40B) on two, attn_norm_2 for attention.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_falcon {

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    return LayerSpec{
        .norm = n.layer_norm(n.has("attn_norm_2") ? "attn_norm_2" : "attn_norm"),
        .mixer = attention(n),
        .feed_norm = n.layer_norm("attn_norm"),
        .feed = plain(n, stated_activation(h, Activation::kGeluErf), Bias::kIfPresent, width_of(n, "ffn_up", 0)),
        .parallel = true};
  });
}

const Arch entry{.summary = "Falcon",
                 .describe = describe,
                 .hub = {{.types = {"falcon"}, .names = hub::kByKvHead, .read_all = hub::read_falcon}}};

}  // namespace kvasir::model::archs_falcon
