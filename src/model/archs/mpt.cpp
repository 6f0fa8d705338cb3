// MPT: ALiBi or learned positions, queries, keys and values that may be cut, no biases in most files.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_mpt {

static ModelSpec describe(const Hparams& h) {
  constexpr auto kMaybe = Bias::kIfPresent;
  ModelSpec m = around(h, Names(h).layer_norm("output_norm", kMaybe));
  if (h.has_tensor("position_embd.weight")) m.embedding.positions = {"position_embd.weight", h.context(), h.dim()};
  const double most = h.number_or("attention.max_alibi_bias", 0.0);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n, kMaybe, kMaybe);
    a.rope = -1;
    if (most > 0) a.slopes = linear_slopes(a.heads, most);
    a.clamp = static_cast<float>(h.number_or("attention.clamp_kqv", 0.0));
    m.layers.push_back(layer_normed_before(n, a, plain(n, stated_activation(h, Activation::kGeluErf), kMaybe), kMaybe));
  }
  return m;
}

constexpr hub::Rename kNames[] = {{"norm_1", "attn_norm"},   {"norm_2", "ffn_norm"},
                                  {"attn.Wqkv", "attn_qkv"}, {"attn.out_proj", "attn_output"},
                                  {"ffn.up_proj", "ffn_up"}, {"ffn.down_proj", "ffn_down"}};

const Arch entry{
    .summary = "MPT", .describe = describe, .hub = {{.types = {"mpt"}, .names = kNames, .read_all = hub::read_mpt}}};

}  // namespace kvasir::model::archs_mpt
