// HRM-Text (transformers hrm_text): two stacks of layers that read each other's states. With h cycles of l + 1 passes,
//   for every cycle: l times low = norm(L(low + high)); high = norm(H(high + low))
// from the embedding as high and a vector of the model's as low. No norm has weights. A file has the layers of L, then
// those of H, and counts one block for every pass of a layer. With prefix_lm the first tokens of a text may see each
// other both ways: as many as a request says (run/prefix.hpp).
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_hrm_text {

static LayerSpec layer_of(const Hparams& h, int block, const Norm& norm) {
  const Names n(h, block);
  Attention a = attention(n);
  const std::int64_t width = std::int64_t{a.heads} * a.d;
  if (n.has("attn_gqkv")) {  // of a folder
    const Linear fused = n.linear("attn_gqkv", 4 * width, h.dim());
    a.gate = part_of(fused, 0, width), a.q = part_of(fused, width, width);
    a.k = part_of(fused, 2 * width, width), a.v = part_of(fused, 3 * width, width);
  } else {
    a.gate = n.linear("attn_gate", width, h.dim());
  }
  return {.norm = norm, .mixer = a, .feed_norm = norm, .feed = gated(n, Activation::kSilu)};
}

static ModelSpec describe(const Hparams& h) {
  const Norm norm{.kind = NormKind::kRms, .width = h.dim(), .eps = h.rms_eps()};
  const auto of_stack = static_cast<int>(h.integer("hrm.layers_per_stack", 1, 4096));
  const auto high = static_cast<int>(h.integer("hrm.h_cycles", 1, 4096));
  const auto low = static_cast<int>(h.integer("hrm.l_cycles", 1, 4096));
  if (std::int64_t{of_stack} * high * (low + 1) != h.layers())
    h.unsupported("block_count", "is not layers_per_stack * h_cycles * (l_cycles + 1)");
  ModelSpec m = around(h, {});
  m.embedding.scale = static_cast<float>(h.number_or("embedding_scale", 1.0));
  m.prefix = h.flag_or("hrm.prefix_lm", false);
  m.embedding.second = {"hrm.z_l_init", h.dim()};
  for (int pass = 0; pass < high * (low + 1); ++pass) {
    const int in_cycle = pass % (low + 1);
    const bool upper = in_cycle == low;
    for (int l = 0; l < of_stack; ++l) {
      LayerSpec layer = layer_of(h, upper ? of_stack + l : l, norm);
      const int first = upper ? low * of_stack + l : l;  // where the stack is met first
      if (first < m.layer_count()) layer.weights_of = first;
      // Behind H the stream is the high state and the other one the low; from L's first pass on it is the other way.
      if (l == 0) layer.second = in_cycle == 0 || upper ? Second::kSwapped : Second::kAdded;
      if (l + 1 == of_stack) layer.end_norm = norm;
      m.layers.push_back(std::move(layer));
    }
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

const Arch entry{.summary = "HRM-Text (two stacks of several passes)",
                 .describe = describe,
                 .hub = {{.types = {"hrm_text"}, .names = hub::kHrmText, .read = hub::read_hrm_text}}};

}  // namespace kvasir::model::archs_hrm_text
