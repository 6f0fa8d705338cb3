// Cohere 2 with experts: attention and feed forward side by side on one norm; a window and RoPE in most layers, none of
// both in the others. The first layers may be dense, and then have positions.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_cohere2moe {

static ModelSpec describe(const Hparams& h) {
  const bool rms = h.number_or("attention.layer_norm_rms_epsilon", 0.0) > 0.0;
  const auto norm = [&](const Names& n, const char* name) {
    return rms ? n.rms(name) : n.layer_norm(name, Bias::kNone);
  };
  ModelSpec m = around(h, norm(Names(h), "output_norm"));
  m.head.scale = static_cast<float>(h.number_or("logit_scale", 1.0));
  h.integer("attention.sliding_window", 1, std::int64_t{1} << 40);
  const std::int64_t dense = h.integer_or("leading_dense_block_count", 0, 4096, 0);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = h.window(l, 4);
    a.rope = a.window > 0 || l < dense ? 0 : -1;
    LayerSpec layer{.norm = norm(n, "attn_norm"), .mixer = a, .feed_norm = norm(n, "attn_norm"), .parallel = true};
    if (l < dense) {
      layer.feed = gated(n, Activation::kSilu, Bias::kIfPresent, width_of(n, "ffn_up", 0));
    } else {
      Experts e = experts(n, h.integer("expert_feed_forward_length", 1, 1 << 24));
      read_gating(n, Gating::kSoftmax, true, e);
      if (e.routing.gating == Gating::kSoftmax) e.routing.gating = Gating::kSoftmaxOfChosen;
      if (n.has("ffn_up_shexp")) {
        // The average of both: in what is made of folders the matrices and expert_weights_scale have the half.
        if (!h.flag_or("shared_expert_scaled", false))
          h.unsupported("expert_shared_count",
                        "is more than 0: the average with a shared expert is not supported, but in "
                        "folders");
        e.shared = shared_expert(n, width_of(n, "ffn_up_shexp", 0));
      }
      layer.feed = e;
    }
    m.layers.push_back(layer);
  }
  m.ropes = {h.rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "Cohere 2 with experts",
                 .describe = describe,
                 .hub = {{.types = {"cohere2_moe"}, .window = hub::Window::kOwn, .read = hub::read_cohere2_moe}}};

}  // namespace kvasir::model::archs_cohere2moe
