// Falcon-H1: attention and Mamba-2 side by side in every layer. The file's matrices hold its multipliers; a folder's
// hold all but those of the embedding and of the logits.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_falcon_h1 {

// The converter leaves ".weight" out.
static Norm feed_norm(const Names& n) {
  Norm norm = n.rms("ffn_norm");
  if (!n.has("ffn_norm")) norm.weight = n.vector("ffn_norm", n.h().dim());
  return norm;
}

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    return LayerSpec{.norm = n.rms("attn_norm"),
                     .mixer = attention(n),
                     .beside = mamba2(n),
                     .feed_norm = feed_norm(n),
                     .feed = gated(n, Activation::kSilu)};
  });
  m.embedding.scale = static_cast<float>(h.number_or("embedding_scale", 1.0));
  m.head.scale = static_cast<float>(h.number_or("logit_scale", 1.0));
  return m;
}

const Arch entry{.summary = "Falcon-H1 (attention beside Mamba-2)",
                 .describe = describe,
                 .hub = {{.types = {"falcon_h1"}, .names = hub::kFalconH1, .read = hub::read_falcon_h1}}};

}  // namespace kvasir::model::archs_falcon_h1
