// Cohere 2: Command R with three layers of a window, then one that sees everything and has no positions.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_cohere2 {

static ModelSpec describe(const Hparams& h) {
  h.integer("attention.sliding_window", 1, std::int64_t{1} << 40);  // without it no layer would have its kind
  ModelSpec m =
      layered(h, Names(h).layer_norm("output_norm", Bias::kNone), kernel::RopePairs::kAdjacent, [&](const Names& n) {
        Attention a = attention(n);
        a.window = h.window(n.layer(), 4);
        a.rope = a.window > 0 ? 0 : -1;
        return layer_normed_beside(n, a, gated(n, Activation::kSilu), Bias::kNone);
      });
  m.head.scale = static_cast<float>(h.number_or("logit_scale", 1.0));
  return m;
}

const Arch entry{.summary = "Command R7B, Command A, Aya",
                 .describe = describe,
                 .hub = {{.types = {"cohere2"}, .window = hub::Window::kOwn, .read = hub::read_cohere}}};

}  // namespace kvasir::model::archs_cohere2
