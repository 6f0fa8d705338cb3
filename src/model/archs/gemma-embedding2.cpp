// EmbeddingGemma 2: layers as Gemma 4 has them, whose tokens see all of their text, or a window on both sides of them,
// with inputs of every layer that are made of the embedding alone.
#include <cmath>

#include "hub/config_reader.hpp"
#include "model/gemma4_blocks.hpp"

namespace kvasir::model::archs_gemma_embedding2 {
namespace {

ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  const Names whole(h);
  m.causal = false;
  m.embedding.scale = std::sqrt(static_cast<float>(h.dim()));
  const std::int64_t width = h.integer("embedding_length_per_layer_input", 1, 1 << 16);
  m.embedding.layers = {.projection = whole.linear("per_layer_model_proj", h.layers() * width, h.dim()),
                        .norm = whole.rms("per_layer_proj_norm", width)};
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = gemma4_heads(n);
    a.window *= 2;  // the file has the radius
    const std::int64_t keys = std::int64_t{a.kv_heads} * a.d;
    a.q = n.linear("attn_q", std::int64_t{a.heads} * a.d, h.dim());
    a.k = n.linear("attn_k", keys, h.dim());
    a.v = n.linear("attn_v", keys, h.dim());
    a.k_norm = n.rms("attn_k_norm", a.d);
    a.v_norm = {.kind = NormKind::kRms, .width = a.dv, .eps = h.rms_eps()};
    LayerSpec layer = normed_around(n, a, gated(n, Activation::kGeluTanh));
    layer.input = {.gate = n.linear("inp_gate", width, h.dim()),
                   .out = n.linear("proj", h.dim(), width),
                   .post = n.rms("post_norm")};
    layer.output_scale = n.vector("layer_output_scale.weight", 1);
    m.layers.push_back(layer);
  }
  m.ropes = gemma4_ropes(h);
  m.projections = {
      {.linear = whole.linear("embedding_projection", h.integer("embedding_length_out", 1, 1 << 20), h.dim())}};
  return m;
}

}  // namespace

constexpr hub::Rename kNames[] = {kGemma4Scalar,
                                  {"ple_block.per_layer_input_gate", "inp_gate"},
                                  {"ple_block.per_layer_projection", "proj"},
                                  {"ple_block.post_per_layer_input_norm", "post_norm"}};

const Arch entry{.summary = "EmbeddingGemma 2 (text)",
                 .describe = describe,
                 .hub = {{.types = {"embedding_gemma2", "embedding_gemma2_text"},
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .activation = "gelu_pytorch_tanh",
                          .names = kNames,
                          .read = hub::read_gemma_embedding2}}};

}  // namespace kvasir::model::archs_gemma_embedding2
