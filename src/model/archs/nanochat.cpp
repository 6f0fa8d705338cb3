// nanochat: no norm has weights, those of heads come behind RoPE, which turns the other way round; a squared ReLU
// between two matrices. Only folders have it.
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_nanochat {

static ModelSpec describe(const Hparams& h) {
  const Norm norm{.kind = NormKind::kRms, .width = h.dim(), .eps = h.rms_eps()};
  ModelSpec m = layered(h, norm, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    a.q_norm = a.k_norm = {.kind = NormKind::kRms, .width = a.d, .eps = h.rms_eps()};
    a.norm_after_rope = true;
    return LayerSpec{
        .norm = norm, .mixer = a, .feed_norm = norm, .feed = plain(n, Activation::kRelu2, Bias::kIfPresent)};
  });
  m.embedding.norm = norm;
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 0.0));
  for (double& f : m.ropes.front().frequencies) f = -f;
  return m;
}

const Arch entry{.summary = "nanochat",
                 .describe = describe,
                 .hub = {{.types = {"nanochat"}, .activation = "relu2", .names = hub::kPhi}}};

}  // namespace kvasir::model::archs_nanochat
