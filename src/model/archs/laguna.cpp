// Laguna: norms of heads, whose number differs by layer; a softplus gate for each head or each of its elements; one
// layer that sees everything, then three with a window and RoPE of their own; experts beside a shared one behind dense
// layers.
#include <cmath>

#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"

namespace kvasir::model::archs_laguna {

static Rope local_rope(const Hparams& h, int d) {
  const std::int64_t n = h.integer_or("rope.dimension_count_swa", 2, d, d);
  const double base = h.number_or("rope.freq_base_swa", h.number_or("rope.freq_base", 10000.0));
  if (n % 2 != 0) h.unsupported("rope.dimension_count_swa", "is odd");
  Rope rope{.pairs = kernel::RopePairs::kSplitHalf};
  for (std::int64_t i = 0; i < n / 2; ++i)
    rope.frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(n)));
  return rope;
}

static ModelSpec describe(const Hparams& h) {
  const bool stated = h.has("attention.sliding_window_pattern");
  ModelSpec m = layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    const std::int64_t gates = width_of(n, "attn_gate", a.heads);
    a.gate = n.linear("attn_gate", gates == a.o.columns ? gates : a.heads, h.dim());
    a.gate_activation = Activation::kSoftplus;
    a.window = stated || n.layer() % 4 != 0 ? h.window(n.layer(), 0) : 0;
    a.rope = a.window > 0 ? 1 : 0;
    return normed_before(n, a, feed_by_router(n, Gating::kSigmoid, true));
  });
  m.ropes.push_back(local_rope(h, h.head_dim(0)));
  return m;
}

constexpr hub::Rename kNames[] = {{"self_attn.g_proj", "attn_gate"},
                                  {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias"}};

const Arch entry{
    .summary = "Laguna",
    .describe = describe,
    .hub = {
        {.types = {"laguna"}, .turned = 1, .window = hub::Window::kOwn, .names = kNames, .read = hub::read_laguna}}};

}  // namespace kvasir::model::archs_laguna
