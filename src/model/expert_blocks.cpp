#include "model/expert_blocks.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "cpu/rows.hpp"

namespace kvasir::model {
namespace {

constexpr std::int64_t kMostExperts = 1 << 16, kMostWidth = 1 << 24;

Stack stack(const Names& n, std::string_view name, std::int64_t count, std::int64_t rows, std::int64_t columns,
            Bias bias) {
  Stack s{.name = n.vector(std::string(name) + ".weight", 0).name, .count = count, .rows = rows, .columns = columns};
  Vector b = n.vector(std::string(name) + ".bias", rows);
  b.rows = count;
  if (bias == Bias::kRequired || (bias == Bias::kIfPresent && n.h().has_tensor(b.name))) s.bias = b;
  return s;
}

Stack part_of(const Stack& fused, std::int64_t first, std::int64_t rows) {
  Stack part = fused;
  part.rows = rows;
  part.cut = {.first = first, .of = fused.rows};
  return part;
}

}  // namespace

// DeepSeek-V2 (arXiv:2405.04434, section 2.1.3) takes the groups with the best expert, V3 (arXiv:2412.19437, section
// 2.1.2), whose choice has a bias, those with the best two.
static void read_groups(const Names& n, Experts& e) {
  const Hparams& h = n.h();
  Routing& r = e.routing;
  const std::int64_t groups = h.integer_or("expert_group_count", 0, kernel::kMostGroups, 0);
  if (groups <= 1) return;
  r.groups = static_cast<int>(groups);
  r.groups_used = static_cast<int>(h.integer("expert_group_used_count", 1, groups));
  r.group_best = e.choice_bias ? 2 : 1;
  if (r.gating == Gating::kSoftmaxOfChosen)
    h.unsupported("expert_gating_func", "is 3 (softmax of the chosen) with experts in groups");
  if (r.count % r.groups != 0 || r.count / r.groups < r.group_best)
    h.unsupported("expert_group_count", "does not divide expert_count into groups of one size, or of too few experts");
  if (r.used > r.count / r.groups * r.groups_used)
    h.unsupported("expert_used_count", "is more than the groups that are used have");
}

bool has_experts(const Hparams& h) { return h.integer_or("expert_count", 0, kMostExperts, 0) > 0; }

std::int64_t expert_width(const Hparams& h, std::int64_t fallback) {
  const std::int64_t width = h.integer_or("expert_feed_forward_length", 0, kMostWidth, 0);
  return width > 0 ? width : fallback;
}

Experts experts(const Names& n, std::int64_t width, Activation activation, Bias bias) {
  const Hparams& h = n.h();
  const std::int64_t count = h.integer("expert_count", 1, kMostExperts), dim = h.dim();
  const std::int64_t narrow = h.integer_or("moe_latent_size", 0, dim, 0), read = narrow > 0 ? narrow : dim;
  if (dim > 2 * cpu::kPieceFloats)
    h.unsupported("embedding_length",
                  "is more than " + std::to_string(2 * cpu::kPieceFloats) + " in a model with experts");
  Experts e;
  e.routing.count = static_cast<int>(count);
  e.routing.used =
      static_cast<int>(h.integer("expert_used_count", 1, std::min<std::int64_t>(count, kernel::kMostUsed)));
  e.routing.normalise = true;
  const double scale = h.number_or("expert_weights_scale", 1.0);
  if (scale != 0.0) e.routing.scale = static_cast<float>(scale);  // 0: files that mean none
  e.activation = activation;
  e.router = n.linear("ffn_gate_inp", count, dim, bias);
  e.router.in_floats = true;
  const Stack fused = stack(n, "ffn_gate_up_exps", count, 2 * width, read, Bias::kNone);
  if (h.has_tensor(fused.name)) {
    e.gate = part_of(fused, 0, width);
    e.up = part_of(fused, width, width);
  } else {
    e.gate = stack(n, "ffn_gate_exps", count, width, read, bias);
    e.up = stack(n, "ffn_up_exps", count, width, read, bias);
  }
  e.down = stack(n, "ffn_down_exps", count, read, width, bias);
  if (narrow > 0) {
    e.into = n.linear("ffn_latent_down", narrow, dim);
    e.out = n.linear("ffn_latent_up", dim, narrow);
  }
  return e;
}

void read_gating(const Names& n, Gating gating, bool normalise, Experts& e) {
  const Hparams& h = n.h();
  e.routing.gating = gating;
  switch (h.integer_or("expert_gating_func", 0, 255, 0)) {
    case 0:
      break;
    case 1:
      e.routing.gating = Gating::kSoftmax;
      break;
    case 2:
      e.routing.gating = Gating::kSigmoid;
      break;
    case 3:
      e.routing.gating = Gating::kSoftmaxOfChosen;
      break;
    default:
      h.unsupported("expert_gating_func", "is none of 1 (softmax), 2 (sigmoid) and 3 (softmax of the chosen)");
  }
  e.routing.normalise = h.flag_or("expert_weights_norm", normalise);
  for (const char* name : {"exp_probs_b", "exp_probs_b.bias"}) {  // the former in files of Hunyuan 3
    const Vector bias = n.vector(name, e.routing.count);
    if (h.has_tensor(bias.name)) e.choice_bias = bias;
  }
  read_groups(n, e);
}

Feed feed_by_router(const Names& n, Gating gating, bool normalise) {
  const Hparams& h = n.h();
  if (!n.has("ffn_gate_inp")) return gated(n, Activation::kSilu);
  Experts e = experts(n, expert_width(h, h.ffn(n.layer())));
  read_gating(n, gating, normalise, e);
  if (n.has("ffn_up_shexp")) e.shared = shared_expert(n, width_of(n, "ffn_up_shexp", 0));
  return e;
}

ModelSpec qwen3_experts_model(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = stated_window(h, l);
    norm_heads(n, a);
    Experts e = experts(n, expert_width(h, h.ffn(l) / h.integer("expert_used_count", 1, kernel::kMostUsed)));
    e.routing.normalise = h.flag_or("expert_weights_norm", true);
    m.layers.push_back(normed_before(n, a, e));
  }
  see_pictures(h, true, m);
  return m;
}

Experts qwen_experts(const Names& n) {
  const Hparams& h = n.h();
  const std::int64_t width = h.integer("expert_feed_forward_length", 1, kMostWidth);
  Experts e = experts(n, width);
  e.routing.normalise = h.flag_or("expert_weights_norm", true);
  if (!n.has("ffn_up_shexp")) return e;
  e.shared = shared_expert(n, h.integer_or("expert_shared_feed_forward_length", 1, kMostWidth, width));
  e.shared_gate = n.linear("ffn_gate_inp_shexp", 1, h.dim());
  e.shared_gate.in_floats = true;
  return e;
}

Dense shared_expert(const Names& n, std::int64_t width, Activation activation) {
  const std::int64_t dim = n.h().dim();
  return {.activation = activation,
          .gate = n.linear("ffn_gate_shexp", width, dim),
          .up = n.linear("ffn_up_shexp", width, dim),
          .down = n.linear("ffn_down_shexp", dim, width)};
}

}  // namespace kvasir::model
