// An architecture: copy to src/model/archs/NAME.cpp and rename `skeleton` to NAME (the value of general.architecture).
// Contract: model/arch.hpp. This one has learned positions, layer norms, one biased tensor of queries, keys and values,
// a feed forward with GELU and without a gate, and, where a file says so, soft caps and a window in every second layer.
// Folders of Hugging Face with the model type "skeleton_text" are read too: what they call the tensors of a layer
// stands here where it isn't what most call them (hub/family_names.hpp). Without `.hub` only GGUF files are read.
#include "model/blocks.hpp"

namespace kvasir::model::archs_skeleton {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).layer_norm("output_norm"));
  m.embedding.positions = {"position_embd.weight", h.context(), h.dim()};
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 0.0));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = fused_attention(n, Bias::kRequired, Bias::kRequired);
    a.rope = -1;
    a.soft_cap = static_cast<float>(h.number_or("attn_logit_softcapping", 0.0));
    a.window = l % 2 == 0 ? h.integer_or("attention.sliding_window", 0, 1 << 24, 0) : 0;
    m.layers.push_back(layer_normed_before(n, a, plain(n, Activation::kGeluTanh, Bias::kRequired)));
  }
  return m;
}

constexpr hub::Rename kNames[] = {{"attn.norm", "attn_norm"}, {"attn.qkv", "attn_qkv"}, {"attn.out", "attn_output"},
                                  {"ffn.norm", "ffn_norm"},   {"ffn.in", "ffn_up"},     {"ffn.out", "ffn_down"}};

const Arch entry{
    .summary = "an architecture that no file has",
    .describe = describe,
    .hub = {{.types = {"skeleton_text"}, .window = hub::Window::kOwn, .activation = "gelu_new", .names = kNames}}};

}  // namespace kvasir::model::archs_skeleton
