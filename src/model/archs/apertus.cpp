// Apertus: norms of heads, and two matrices with xIELU between them, whose two slopes every layer has learned.
#include <algorithm>
#include <cmath>

#include "model/blocks.hpp"

namespace kvasir::model::archs_apertus {

// Files have what softplus makes slopes of, as GGUF's metadata.
static kernel::Xielu xielu(const Hparams& h, int l) {
  const auto number = [&](const char* key) { return h.number_in_layer(key, l); };
  const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  const double beta = number("xielu.beta");
  return {.positive = static_cast<float>(softplus(number("xielu.alpha_p"))),
          .negative = static_cast<float>(beta + softplus(number("xielu.alpha_n"))),
          .beta = static_cast<float>(beta),
          .eps = static_cast<float>(number("xielu.eps"))};
}

static ModelSpec describe(const Hparams& h) {
  return layered(h, kernel::RopePairs::kSplitHalf, [&](const Names& n) {
    Attention a = attention(n);
    norm_heads(n, a);
    Dense feed = plain(n, Activation::kXielu, Bias::kIfPresent);
    feed.xielu = xielu(h, n.layer());
    return normed_before(n, a, feed);
  });
}

constexpr hub::Rename kNames[] = {{"attention_layernorm", "attn_norm"},
                                  {"feedforward_layernorm", "ffn_norm"},
                                  {"mlp.act_fn.alpha_p", "xielu.alpha_p", hub::Make::kNumber},
                                  {"mlp.act_fn.alpha_n", "xielu.alpha_n", hub::Make::kNumber},
                                  {"mlp.act_fn.beta", "xielu.beta", hub::Make::kNumber},
                                  {"mlp.act_fn.eps", "xielu.eps", hub::Make::kNumber}};

const Arch entry{.summary = "Apertus",
                 .describe = describe,
                 .hub = {{.types = {"apertus"}, .activation = "xielu", .names = kNames}}};

}  // namespace kvasir::model::archs_apertus
