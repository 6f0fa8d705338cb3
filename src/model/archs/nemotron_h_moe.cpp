// Nemotron 3: Nemotron-H, whose feed forwards are experts of squared ReLU without gates, beside a shared one.
#include "model/expert_blocks.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_nemotron_h_moe {

static Experts feed(const Names& n) {
  const Hparams& h = n.h();
  Experts e = experts(n, expert_width(h, h.ffn(n.layer())), Activation::kRelu2);
  e.gate = {};
  read_gating(n, Gating::kSigmoid, true, e);
  if (!n.has("ffn_up_shexp")) return e;
  const std::int64_t width = h.integer("expert_shared_feed_forward_length", 1, 1 << 24);
  e.shared = {.activation = Activation::kRelu2,
              .up = n.linear("ffn_up_shexp", width, h.dim()),
              .down = n.linear("ffn_down_shexp", h.dim(), width)};
  return e;
}

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    const Norm norm = n.rms("attn_norm");
    if (n.has("ffn_gate_inp")) {
      m.layers.push_back({.mixer = NoMixer{}, .feed_norm = norm, .feed = feed(n)});
    } else if (n.has("ffn_up")) {  // files may say that it is 0 wide
      m.layers.push_back({.mixer = NoMixer{},
                          .feed_norm = norm,
                          .feed = plain(n, Activation::kRelu2, Bias::kIfPresent, width_of(n, "ffn_up", 0))});
    } else if (h.attends(l)) {
      Attention a = attention(n);
      a.rope = -1;
      m.layers.push_back({.norm = norm, .mixer = a, .feed = NoFeed{}});
    } else {
      m.layers.push_back({.norm = norm, .mixer = mamba2(n), .feed = NoFeed{}});
    }
  }
  return m;
}

const Arch entry{.summary = "Nemotron 3 (Mamba-2, experts)", .describe = describe};

}  // namespace kvasir::model::archs_nemotron_h_moe
