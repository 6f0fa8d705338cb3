// The assistants of Gemma 4 (model/assistant.hpp): a few layers of queries alone, which read keys and values of the
// model that they draft for, a matrix in front of them and one behind.
#include "hub/config_reader.hpp"
#include "model/gemma4_blocks.hpp"

namespace kvasir::model::archs_gemma4_assistant {
namespace {

ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  const Names whole(h);
  const std::int64_t backbone = h.integer("embedding_length_out", 1, 1 << 24);
  m.embedding.given = whole.linear("nextn.pre_projection", h.dim(), 2 * backbone);
  m.head.next = whole.linear("nextn.post_projection", backbone, h.dim());
  if (whole.has("masked_embd_centroids")) {
    const std::int64_t groups = h.rows_of(whole.full("masked_embd_centroids"));
    if (groups < 1 || h.vocab() % groups != 0)
      h.unsupported("vocab_size", "is " + std::to_string(h.vocab()) + ", expected a multiple of the rows of " +
                                      whole.full("masked_embd_centroids") + ", " + std::to_string(groups));
    m.head.groups = {.centroids = whole.linear("masked_embd_centroids", groups, h.dim()),
                     .order = whole.vector("masked_embd_ordering", h.vocab()),
                     .used = static_cast<int>(h.integer("centroids_used", 1, groups))};
  }
  if (!h.has("attention.sliding_window_pattern"))
    h.unsupported("attention.sliding_window_pattern", "is missing: it says which layers have a window");
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    Attention a = gemma4_heads(n);
    a.q = n.linear("attn_q", std::int64_t{a.heads} * a.d, h.dim());
    m.layers.push_back(normed_around(n, a, gated(n, Activation::kGeluTanh)));
    m.layers.back().output_scale = n.vector("layer_output_scale.weight", 1);
  }
  m.ropes = gemma4_ropes(h);
  return m;
}

}  // namespace

constexpr hub::Rename kNames[] = {kGemma4Scalar};

const Arch entry{.summary = "Gemma 4's assistants, which draft for it",
                 .describe = describe,
                 .hub = {{.types = {"gemma4_assistant", "gemma4_unified_assistant"},
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .activation = "gelu_pytorch_tanh",
                          .names = kNames,
                          .read = hub::read_gemma4}},
                 .drafts_for = "gemma4"};

}  // namespace kvasir::model::archs_gemma4_assistant
