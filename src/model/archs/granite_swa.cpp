// Granite Swash: Granite with windows, sinks and layers without positions; some have experts.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_granite_swa {

static Feed feed(const Names& n) {
  const Hparams& h = n.h();
  if (!has_experts(h)) return gated(n, Activation::kSilu);
  Experts e = experts(n, expert_width(h, h.ffn(n.layer())));
  if (n.has("ffn_gate_shexp")) {
    e.shared = shared_expert(n, width_of(n, "ffn_up_shexp", 0));
  } else if (n.has("ffn_up_shexp")) {  // the rows of the gate before its own
    const std::int64_t width = width_of(n, "ffn_up_shexp", 0) / 2;
    const Linear both = n.linear("ffn_up_shexp", 2 * width, h.dim());
    e.shared = {.gate = part_of(both, 0, width),
                .up = part_of(both, width, width),
                .down = n.linear("ffn_down_shexp", h.dim(), width)};
  }
  return e;
}

static ModelSpec describe(const Hparams& h) {
  const bool some = h.has("attention.rope_pattern");
  if (!h.has("attention.sliding_window_pattern"))
    h.unsupported("attention.sliding_window_pattern", "is missing: it says which layers have a window");
  ModelSpec m = layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    Attention a = attention(n);
    a.window = h.window(n.layer(), 0);
    if (some && !h.flag_in_layer("attention.rope_pattern", n.layer())) a.rope = -1;
    a.sinks = n.vector("attn_sinks.weight", a.heads);
    return LayerSpec{.norm = n.rms("attn_norm"),
                     .mixer = a,
                     .feed_norm = n.rms("ffn_norm"),
                     .feed = feed(n),
                     .residual_scale = static_cast<float>(h.number_or("residual_scale", 1.0))};
  });
  scale_as_granite(h, m);
  return m;
}

const Arch entry{
    .summary = "Granite Swash (windows and sinks)",
    .describe = describe,
    .hub = {{.types = {"granite_swa"}, .pairs = true, .window = hub::Window::kOwn, .read = hub::read_granite_swa},
            {.types = {"granitemoe_swa"},
             .pairs = true,
             .window = hub::Window::kOwn,
             .names = hub::kGranite,
             .read = hub::read_granite_swa}}};

}  // namespace kvasir::model::archs_granite_swa
