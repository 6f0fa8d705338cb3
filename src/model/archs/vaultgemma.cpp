// VaultGemma: Gemma 2 without norms behind attention and feed forward. Only folders have it.
#include <cmath>

#include "model/blocks.hpp"

namespace kvasir::model::archs_vaultgemma {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    a.soft_cap = static_cast<float>(h.number_or("attn_logit_softcapping", 50.0));
    a.window = h.window(n.layer(), 2);
    return normed_before(n, a, gated(n, Activation::kGeluTanh));
  });
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 30.0));
  return m;
}

const Arch entry{.summary = "VaultGemma",
                 .describe = describe,
                 .hub = {{.types = {"vaultgemma"},
                          .one_more = true,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .activation = "gelu_pytorch_tanh"}}};

}  // namespace kvasir::model::archs_vaultgemma
