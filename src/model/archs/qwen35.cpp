// Qwen 3.5: gated DeltaNet, and every fourth layer attention with an output gate. Value heads are tiled over key heads.
#include "hub/config_reader.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_qwen35 {

static Feed feed(const Names& n) { return gated(n, Activation::kSilu); }
static ModelSpec describe(const Hparams& h) { return delta_model(h, true, feed); }
static LayerSpec block(const Hparams& h, int l) { return delta_layer(h, l, true, feed); }

const Arch entry{.summary = "Qwen 3.5, 3.6 and 3.8 (gated DeltaNet)",
                 .describe = describe,
                 .block = block,
                 .hub = {{.types = {"qwen3_5", "qwen3_5_text"},
                          .turned = 1,
                          .one_more = true,
                          .post_norms = true,
                          .window = hub::Window::kOwn,
                          .read = hub::read_delta}}};

}  // namespace kvasir::model::archs_qwen35
