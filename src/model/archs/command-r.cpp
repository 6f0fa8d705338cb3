// Command R: attention and feed forward side by side on one layer norm without bias, scaled logits; R+ norms heads.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_command_r {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m =
      layered(h, Names(h).layer_norm("output_norm", Bias::kNone), kernel::RopePairs::kAdjacent, [&](const Names& n) {
        Attention a = attention(n);
        layer_norm_heads(n, a);
        return layer_normed_beside(n, a, gated(n, Activation::kSilu), Bias::kNone);
      });
  m.head.scale = static_cast<float>(h.number_or("logit_scale", 1.0));
  return m;
}

const Arch entry{
    .summary = "Command R and R+", .describe = describe, .hub = {{.types = {"cohere"}, .read = hub::read_cohere}}};

}  // namespace kvasir::model::archs_command_r
