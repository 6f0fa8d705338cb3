// Hunyuan, dense: RMS norm of every query and key head after RoPE.
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_hunyuan_dense {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.norm_after_rope = true;
    return normed_before(n, a, gated(n, Activation::kSilu));
  });
}

const Arch entry{.summary = "Hunyuan (dense)",
                 .describe = describe,
                 .hub = {{.types = {"hunyuan_v1_dense"}, .names = hub::kHunyuan}}};

}  // namespace kvasir::model::archs_hunyuan_dense
