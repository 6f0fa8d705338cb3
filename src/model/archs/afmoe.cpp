// AFMoE (Trinity): three layers with a window and RoPE, then one that sees everything and has no positions; a gate for
// every element of attention's heads; norms before and behind both parts; experts beside a shared one.
#include <cmath>

#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_afmoe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    a.gate = n.linear("attn_gate", a.o.columns, h.dim());
    a.window = h.window(n.layer(), 4);
    if (a.window == 0) a.rope = -1;
    return normed_around(n, a, feed_by_router(n, Gating::kSigmoid, true));
  });
  m.embedding.scale = static_cast<float>(h.number_or("embedding_scale", std::sqrt(static_cast<double>(h.dim()))));
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
