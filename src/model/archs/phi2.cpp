// Phi 1.5 and 2: attention and feed forward side by side on one layer norm, biases everywhere, RoPE on a part of heads.
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_phi2 {

static ModelSpec describe(const Hparams& h) {
  return layered(h, Names(h).layer_norm("output_norm"), kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    return layer_normed_beside(n, attention(n, Bias::kRequired, Bias::kRequired),
                               plain(n, Activation::kGeluTanh, Bias::kRequired, width_of(n, "ffn_up", 0)));
  });
}

const Arch entry{.summary = "Phi 1.5 and 2",
                 .describe = describe,
                 .hub = {{.types = {"phi"}, .turned = 1, .activation = "gelu_new", .names = hub::kPhi}}};

}  // namespace kvasir::model::archs_phi2
