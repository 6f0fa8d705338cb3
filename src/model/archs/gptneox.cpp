// GPT-NeoX: attention and feed forward side by side, each on a layer norm of its own; RoPE on a part of heads.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_gptneox {

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    return LayerSpec{.norm = n.layer_norm("attn_norm"),
                     .mixer = attention(n),
                     .feed_norm = n.layer_norm("ffn_norm"),
                     .feed = plain(n, stated_activation(h, Activation::kGeluErf), Bias::kRequired),
                     .parallel = h.flag_or("use_parallel_residual", true)};
  });
}

const Arch entry{.summary = "GPT-NeoX, Pythia",
                 .describe = describe,
                 .hub = {{.types = {"gpt_neox"},
                          .turned = 0.25,
                          .activation = "",
                          .names = hub::kByKvHead,
                          .read = hub::read_gpt_neox}}};

}  // namespace kvasir::model::archs_gptneox
