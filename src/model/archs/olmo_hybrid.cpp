// OLMo hybrid: three layers of gated DeltaNet, whose states may turn round, with norms before both parts, then one of
// attention with norms behind them, as OLMo 2 has. Folders alone.
#include "hub/config_reader.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_olmo_hybrid {

static LayerSpec recurrent(const Names& n) {
  Delta d = delta(n);
  d.eps = 1e-6f;
  d.norm.eps = 1e-5f;
  d.strength = n.h().flag_or("ssm.negative", true) ? 2.0f : 1.0f;
  return {.norm = n.rms("attn_norm"),
          .mixer = d,
          .feed_norm = n.rms("post_attention_norm"),
          .feed = gated(n, Activation::kSilu)};
}

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  const bool rotated = h.flag_or("attention.rotated", true);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    if (h.flag_in_layer("attention.recurrent_layers", l)) {
      m.layers.push_back(recurrent(n));
      continue;
    }
    Attention a = attention(n);
    norm_all_heads(n, a);
    if (!rotated) a.rope = -1;
    m.layers.push_back(normed_behind(n, a, gated(n, Activation::kSilu)));
  }
  if (rotated) m.ropes = {h.rope(kernel::RopePairs::kSplitHalf, h.head_dim(0))};
  return m;
}

// The rows of a name with a number behind a slash are that part of the tensor's.
constexpr hub::Rename kNames[] = {
    {"attention_layer_norm", "attn_norm"},    {"feedforward_layer_norm", "post_attention_norm"},
    {"linear_attn.q_proj", "attn_qkv/0"},     {"linear_attn.k_proj", "attn_qkv/1"},
    {"linear_attn.v_proj", "attn_qkv/2"},     {"linear_attn.q_conv1d", "ssm_conv1d/0"},
    {"linear_attn.k_conv1d", "ssm_conv1d/1"}, {"linear_attn.v_conv1d", "ssm_conv1d/2"},
    {"linear_attn.g_proj", "attn_gate"},      {"linear_attn.b_proj", "ssm_beta"},
    {"linear_attn.a_proj", "ssm_alpha"},      {"linear_attn.o_norm", "ssm_norm"},
    {"linear_attn.o_proj", "ssm_out"}};

const Arch entry{.summary = "OLMo hybrid (gated DeltaNet)",
                 .describe = describe,
                 .hub = {{.types = {"olmo_hybrid"},
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .names = kNames,
                          .read = hub::read_olmo_hybrid}}};

}  // namespace kvasir::model::archs_olmo_hybrid
