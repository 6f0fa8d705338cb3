// ERNIE 4.5 with experts: llama, of whose layers every few have experts, from one on. A bias for the choice, shared
// experts.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_ernie4_5_moe {

static ModelSpec describe(const Hparams& h) {
  const std::int64_t dense = h.integer_or("leading_dense_block_count", 0, h.layers(), 0);
  const std::int64_t step = h.integer("interleave_moe_layer_step", 1, 1 << 24);
  return layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    const int l = n.layer();
    LayerSpec layer{.norm = n.rms("attn_norm"), .mixer = attention(n), .feed_norm = n.rms("ffn_norm")};
    if (l >= dense && (l + 1) % step == 0) {
      Experts e = experts(n, expert_width(h, h.ffn(l)));
      read_gating(n, Gating::kSoftmax, true, e);
      const std::int64_t shared = h.integer_or("expert_shared_feed_forward_length", 0, 1 << 24, 0);
      if (shared > 0) e.shared = shared_expert(n, width_of(n, "ffn_up_shexp", shared));  // the file's is a formula
      layer.feed = e;
    } else {
      layer.feed = gated(n, Activation::kSilu);
    }
    return layer;
  });
}

const Arch entry{.summary = "ERNIE 4.5 with experts",
                 .describe = describe,
                 .hub = {{.types = {"ernie4_5_moe"}, .read = hub::read_ernie}}};

}  // namespace kvasir::model::archs_ernie4_5_moe
