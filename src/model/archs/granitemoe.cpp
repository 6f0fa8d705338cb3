// Granite 3 with experts, and where the file has one a shared expert.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_granitemoe {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  scale_as_granite(h, m);
  const bool rotated = h.flag_or("rope.scaling.finetuned", true);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    if (!rotated) a.rope = -1;
    Experts e = experts(n, expert_width(h, h.ffn(l)));
    const std::int64_t shared = h.integer_or("expert_shared_feed_forward_length", 0, 1 << 24, 0);
    if (shared > 0) e.shared = shared_expert(n, shared);
    m.layers.push_back({.norm = n.rms("attn_norm"),
                        .mixer = a,
                        .feed_norm = n.rms("ffn_norm"),
                        .feed = e,
                        .residual_scale = static_cast<float>(h.number_or("residual_scale", 1.0))});
  }
  if (rotated) m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Granite 3 with experts",
                 .describe = describe,
                 .hub = {{.types = {"granitemoe", "granitemoeshared"},
                          .pairs = true,
                          .names = hub::kGranite,
                          .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_granitemoe
