// NeoBERT (arXiv:2502.19587): norms before, RoPE on adjacent pairs, SwiGLU, no biases.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_neo_bert {
namespace {

// The rows of attn_qkv come by head, those of its query, its key, its value: the converter leaves them as they are.
Attention mixer(const Names& n) {
  Attention a = attention(n);
  const std::int64_t all = std::int64_t{3} * a.heads * a.d;
  std::int64_t first = 0;
  for (Linear* part : {&a.q, &a.k, &a.v}) {
    if (part->rows != all / 3) n.h().unsupported("attention.head_count_kv", "is not attention.head_count");
    part->cut = {.first = first, .of = all, .run = a.d, .step = std::int64_t{3} * a.d};
    first += a.d;
  }
  return a;
}

ModelSpec describe(const Hparams& h) {
  ModelSpec m = encoder(h);
  m.embedding.norm = {};
  m.head.norm = Names(h).rms("enc.output_norm");
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back(normed_before(n, mixer(n), fused_gated(n, Activation::kSilu)));
  }
  m.ropes = {h.plain_rope(kernel::RopePairs::kAdjacent, h.head_dim(0))};
  return m;
}

}  // namespace

constexpr hub::Rename kNames[] = {{"qkv", "attn_qkv"},      {"wo", "attn_output"}, {"attention_norm", "attn_norm"},
                                  {"ffn_norm", "ffn_norm"}, {"ffn.w12", "ffn_up"}, {"ffn.w3", "ffn_down"}};

const Arch entry{.summary = "NeoBERT (embeddings, ranking)",
                 .describe = describe,
                 .hub = {{.types = {"neobert"}, .encoder = true, .names = kNames, .read_all = hub::read_neobert}}};

}  // namespace kvasir::model::archs_neo_bert
