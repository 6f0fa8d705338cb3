// ModernBERT (arXiv:2412.13663) and its children (GTE ModernBERT, Granite Embedding R2): one layer that sees the whole
// text, then two with a window on both sides and RoPE of their own; norms before, GeGLU, no biases.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_modern_bert {
namespace {

// "hidden_activation" of the configuration, under the converter's key.
Activation gate(const Hparams& h) {
  const std::string name = h.text_or("hidden_activation", "gelu");
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  h.unsupported("hidden_activation", "is '" + name + "', expected gelu or silu");
}

ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  const Names names(h);
  m.embedding.norm = names.layer_norm("token_embd_norm", Bias::kIfPresent);
  m.head.norm = names.layer_norm("output_norm", Bias::kIfPresent);
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = attention(n);
    a.window = h.window(l, 3, 0, Hparams::Period::kFirstSeesAll);
    a.rope = a.window > 0 ? 1 : 0;
    m.layers.push_back({.norm = n.has("attn_norm") ? n.layer_norm("attn_norm", Bias::kIfPresent) : Norm{},
                        .mixer = a,
                        .feed_norm = n.layer_norm("ffn_norm", Bias::kIfPresent),
                        .feed = fused_gated(n, gate(h))});
  }
  constexpr auto kPairs = kernel::RopePairs::kSplitHalf;
  m.ropes = {h.rope(kPairs, h.head_dim(0)),
             h.plain_rope(kPairs, h.head_dim(0), h.number_or("rope.freq_base_swa", 10000.0))};
  m.rank.act = Rank::Act::kGelu;
  if (names.has("cls.norm")) m.rank.norm = names.layer_norm("cls.norm", Bias::kIfPresent);
  m.rank.pooling = rank_pooling(h, Pooling::kMean);
  return m;
}

}  // namespace

constexpr hub::Rename kNames[] = {{"attn.Wqkv", "attn_qkv"}, {"attn.Wo", "attn_output"}, {"attn_norm", "attn_norm"},
                                  {"mlp_norm", "ffn_norm"},  {"mlp.Wi", "ffn_up"},       {"mlp.Wo", "ffn_down"}};

const Arch entry{
    .summary = "ModernBERT (embeddings, ranking)",
    .describe = describe,
    .hub = {{.types = {"modernbert"}, .encoder = true, .names = kNames, .read_all = hub::read_modern_bert}}};

}  // namespace kvasir::model::archs_modern_bert
