// GTE (arXiv:2407.19669; "new" in its authors' folders): BERT with RoPE and gated feed forwards whose tensor has up
// before the gate.
#include <utility>

#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_gte {
namespace {

Dense feed(const Names& n) {
  Dense d = fused_gated(n, stated_activation(n.h(), Activation::kGeluErf));
  std::swap(d.gate.cut, d.up.cut);
  return d;
}

ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back(norms_of_sums(n, attention(n), feed(n)));
  }
  m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

}  // namespace

constexpr hub::Rename kNames[] = {{"attention.qkv_proj", "attn_qkv"}, {"attention.o_proj", "attn_output"},
                                  {"attn_ln", "attn_output_norm"},    {"mlp.up_gate_proj", "ffn_up"},
                                  {"mlp.down_proj", "ffn_down"},      {"mlp_ln", "layer_output_norm"}};

const Arch entry{.summary = "GTE (embeddings, ranking)",
                 .describe = describe,
                 .hub = {{.types = {"gte", "new"}, .encoder = true, .names = kNames, .read_all = hub::read_gte}}};

}  // namespace kvasir::model::archs_gte
