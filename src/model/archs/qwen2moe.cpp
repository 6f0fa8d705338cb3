// Qwen 1.5 and 2 with experts: qwen2, with a shared expert whose part a gate of its own decides; the weights of the
// chosen experts are not divided by their sum.
#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_qwen2moe {

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    const int l = n.layer();
    Experts e = experts(n, expert_width(h, h.ffn(l) / h.integer("expert_used_count", 1, kernel::kMostUsed)));
    e.routing.normalise = h.flag_or("expert_weights_norm", false);
    e.shared = shared_expert(n, h.integer_or("expert_shared_feed_forward_length", 1, 1 << 24, h.ffn(l)));
    e.shared_gate = n.linear("ffn_gate_inp_shexp", 1, h.dim());
    e.shared_gate.in_floats = true;
    Attention a = attention(n, Bias::kRequired);
    a.window = stated_window(h, l);
    return normed_before(n, a, e);
  });
}

const Arch entry{.summary = "Qwen 1.5 and 2 with experts",
                 .describe = describe,
                 .hub = {{.types = {"qwen2_moe"}, .window = hub::Window::kStated, .read = hub::read_experts}}};

}  // namespace kvasir::model::archs_qwen2moe
