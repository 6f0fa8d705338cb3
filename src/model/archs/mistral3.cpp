// Ministral 3: Llama whose queries grow with their position, and with YaRN of two magnitudes.
#include <cmath>

#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_mistral3 {

static ModelSpec describe(const Hparams& h) {
  const Temperature temperature{static_cast<float>(h.number_or("attention.temperature_scale", 0.0)), 0,
                                h.integer_or("rope.scaling.original_context_length", 1, 1 << 30, h.context())};
  ModelSpec m = layered(h, kernel::RopePairs::kAdjacent, [&](const Names& n) {
    Attention a = attention(n);
    a.temperature = temperature;
    return normed_before(n, a, gated(n, Activation::kSilu));
  });
  // Of YaRN, whose own magnitude is 1 + 0.1 ln(factor).
  const double factor = h.number_or("rope.scaling.factor", 0.0);
  if (!h.has(Hparams::kYarnMagnitude) && h.text_or("rope.scaling.type", "linear") == "yarn" && factor > 0.0)
    m.ropes[0].magnitude /=
        static_cast<float>(1.0 + 0.1 * h.number_or("rope.scaling.yarn_log_multiplier", 0.0) * std::log(factor));
  return m;
}

const Arch entry{.summary = "Ministral 3, Devstral 2",
                 .describe = describe,
                 .hub = {{.types = {"ministral3", "mistral3"}, .pairs = true, .read = hub::read_ministral}}};

}  // namespace kvasir::model::archs_mistral3
