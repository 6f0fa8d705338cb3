// Granite 4 with Mamba-2 in most layers: the scales of Granite; feed forwards or experts beside a shared one. Attention
// has no positions unless rope.scaling.finetuned says so (Bamba, or all layers attention).
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_granitehybrid {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  scale_as_granite(h, m);
  const bool rotated = h.flag_or("rope.scaling.finetuned", false);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"),
                    .feed_norm = n.rms("ffn_norm"),
                    .residual_scale = static_cast<float>(h.number_or("residual_scale", 1.0))};
    if (h.attends(l) || n.has("attn_k")) {
      Attention a = attention(n);
      if (!rotated) a.rope = -1;
      // Bamba. The converter orders rows of queries and keys as if whole heads were turned, so that halves that belong
      // together lie apart: its order is undone.
      const bool in_part = rotated && h.integer_or("rope.dimension_count", 1, a.d, a.d) < a.d;
      for (Linear* rows : {&a.q, &a.k})
        if (in_part) rows->cut.turns = rows->bias.cut.turns = a.d;
      if (rotated && m.ropes.empty())
        m.ropes = {h.rope(in_part ? kernel::RopePairs::kSplitHalf : kernel::RopePairs::kAdjacent, a.d)};
      layer.mixer = a;
    } else {
      layer.mixer = mamba2(n);
    }
    if (has_experts(h)) {
      Experts e = experts(n, expert_width(h, h.ffn(l)));
      const std::int64_t shared = h.integer_or("expert_shared_feed_forward_length", 0, 1 << 24, 0);
      if (shared > 0) e.shared = shared_expert(n, shared);
      layer.feed = e;
    } else {
      layer.feed = gated(n, Activation::kSilu, Bias::kIfPresent, width_of(n, "ffn_up", 0));
    }
    m.layers.push_back(layer);
  }
  return m;
}

const Arch entry{
    .summary = "Granite 4 H (Mamba-2)",
    .describe = describe,
    .hub = {{.types = {"bamba"}, .pairs = true, .names = hub::kFalconH1, .read = hub::read_bamba},
            {.types = {"granitemoehybrid"}, .pairs = true, .names = hub::kGranite, .read = hub::read_granite_hybrid}}};

}  // namespace kvasir::model::archs_granitehybrid
