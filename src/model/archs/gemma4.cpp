// Gemma 4: local and global layers with head sizes, KV heads and RoPE of their own, values that are normed and may be
// the keys, layers that read another's keys and values, inputs of every layer from a table of their own, and experts
// beside a dense feed forward.
#include <cmath>

#include "hub/config_reader.hpp"
#include "model/expert_blocks.hpp"
#include "model/gemma4_blocks.hpp"

namespace kvasir::model::archs_gemma4 {
namespace {

Attention mixer(const Names& n, int owner) {
  const Hparams& h = n.h();
  Attention a = gemma4_heads(n);
  const std::int64_t queries = std::int64_t{a.heads} * a.d, keys = std::int64_t{a.kv_heads} * a.d,
                     values = std::int64_t{a.kv_heads} * a.dv;
  const bool fused = n.has("attn_qkv");
  const Linear all = n.linear("attn_qkv", queries + keys + values, h.dim());
  a.q = fused ? part_of(all, 0, queries) : n.linear("attn_q", queries, h.dim());
  a.kv_of = owner;
  if (owner >= 0) return a;
  a.k = fused ? part_of(all, queries, keys) : n.linear("attn_k", keys, h.dim());
  a.k_norm = n.rms("attn_k_norm", a.d);
  if (fused)
    a.v = part_of(all, queries + keys, values);
  else if (n.has("attn_v"))
    a.v = n.linear("attn_v", values, h.dim());
  else
    a.v_of_k = true;
  if (a.v_of_k && a.d != a.dv) h.unsupported("attention.value_length", "is not key_length in a model without attn_v");
  a.v_norm = {.kind = NormKind::kRms, .width = a.dv, .eps = h.rms_eps()};
  return a;
}

// The last layer below `own` that has a window where layer l has one.
int owner_of(const Hparams& h, int l, int own) {
  if (l < own) return -1;
  for (int i = own - 1; i >= 0; --i)
    if ((h.window(i, 0) > 0) == (h.window(l, 0) > 0)) return i;
  h.unsupported("attention.shared_kv_layers", "leaves a layer without one of its kind to read from");
}

Feed feed(const Names& n) {
  const Hparams& h = n.h();
  const Dense dense = gated(n, Activation::kGeluTanh);
  if (!n.has("ffn_gate_inp")) return dense;
  DenseAndExperts both{.dense = dense,
                       .dense_post = n.rms("post_ffw_norm_1"),
                       .experts = experts(n, expert_width(h, h.ffn(n.layer())), Activation::kGeluTanh),
                       .experts_norm = n.rms("pre_ffw_norm_2"),
                       .experts_post = n.rms("post_ffw_norm_2")};
  Experts& e = both.experts;
  e.router_norm = {.kind = NormKind::kRms, .width = h.dim(), .eps = h.rms_eps()};
  e.router_norm.weight = n.vector("ffn_gate_inp.scale", h.dim());
  e.router_scale = 1.0f / std::sqrt(static_cast<float>(h.dim()));
  // Of weight types that have such factors themselves the loader has multiplied the matrices.
  const Vector scales = n.vector("ffn_down_exps.scale", e.routing.count);
  if (h.has_tensor(scales.name) && !h.scales_matrices(e.down.name)) e.weight_scales = scales;
  return both;
}

// Inputs of all layers.
LayerInputs inputs(const Hparams& h, std::int64_t width) {
  const Names n(h);
  const std::int64_t all = h.layers() * width;
  return {.tokens = {"per_layer_token_embd.weight", h.vocab(), all},
          .projection = n.linear("per_layer_model_proj", all, h.dim()),
          .norm = n.rms("per_layer_proj_norm", width),
          .scale = std::sqrt(static_cast<float>(width))};
}

ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  m.head.soft_cap = static_cast<float>(h.number_or("final_logit_softcapping", 30.0));
  const std::int64_t width = h.integer_or("embedding_length_per_layer_input", 0, 1 << 16, 0);
  if (width > 0) m.embedding.layers = inputs(h, width);
  if (!h.has("attention.sliding_window_pattern"))
    h.unsupported("attention.sliding_window_pattern", "is missing: it says which layers have a window");
  const int own = h.layers() - static_cast<int>(h.integer_or("attention.shared_kv_layers", 0, h.layers(), 0));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    LayerSpec layer = normed_around(n, mixer(n, owner_of(h, l, own)), feed(n));
    if (width > 0)
      layer.input = {.gate = n.linear("inp_gate", width, h.dim()),
                     .out = n.linear("proj", h.dim(), width),
                     .post = n.rms("post_norm")};
    if (n.has("layer_output_scale")) layer.output_scale = n.vector("layer_output_scale.weight", 1);
    m.layers.push_back(layer);
  }
  m.ropes = gemma4_ropes(h);
  return m;
}

}  // namespace

constexpr hub::Rename kNames[] = {{"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                                  {"experts.down_proj", "ffn_down_exps.weight"},
                                  {"router.proj", "ffn_gate_inp"},
                                  {"router.scale", "ffn_gate_inp.scale"},
                                  {"router.per_expert_scale", "ffn_down_exps.scale"},
                                  kGemma4Scalar,
                                  {"per_layer_input_gate", "inp_gate"},
                                  {"per_layer_projection", "proj"},
                                  {"post_per_layer_input_norm", "post_norm"},
                                  {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
                                  {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
                                  {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"}};

const Arch entry{.summary = "Gemma 4 (text)",
                 .describe = describe,
                 .hub = {{.types = {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"},
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .activation = "gelu_pytorch_tanh",
                          .names = kNames,
                          .read = hub::read_gemma4}}};

}  // namespace kvasir::model::archs_gemma4
