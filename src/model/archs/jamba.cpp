// Jamba: Mamba, and in some layers attention without positions; feed forwards, and in some layers experts.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_jamba {

static Feed feed(const Names& n) {
  if (!n.has("ffn_gate_inp")) return gated(n, Activation::kSilu);
  Experts e = experts(n, expert_width(n.h(), n.h().ffn(n.layer())));
  read_gating(n, Gating::kSoftmax, false, e);
  return e;
}

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer{.norm = n.rms("attn_norm"), .feed_norm = n.rms("ffn_norm"), .feed = feed(n)};
    if (h.attends(l)) {
      Attention a = attention(n);
      a.rope = -1;
      layer.mixer = a;
    } else {
      layer.mixer = model::mamba(n);
    }
    m.layers.push_back(layer);
  }
  return m;
}

constexpr hub::Rename kNames[] = {{"pre_ff_layernorm", "ffn_norm"},
                                  {"feed_forward.gate_proj", "ffn_gate"},
                                  {"feed_forward.up_proj", "ffn_up"},
                                  {"feed_forward.down_proj", "ffn_down"},
                                  {"feed_forward.router", "ffn_gate_inp"},
                                  {"feed_forward.experts.*.gate_proj", "ffn_gate_exps"},
                                  {"feed_forward.experts.*.up_proj", "ffn_up_exps"},
                                  {"feed_forward.experts.*.down_proj", "ffn_down_exps"}};

const Arch entry{.summary = "Jamba (Mamba, attention, experts)",
                 .describe = describe,
                 .hub = {{.types = {"jamba"}, .names = kNames, .read = hub::read_jamba}}};

}  // namespace kvasir::model::archs_jamba
