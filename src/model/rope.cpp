// Rotary frequencies as files describe them.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/hparams.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

constexpr std::int64_t kMostContext = std::int64_t{1} << 30;

// Low frequencies are interpolated by `factor`, high ones kept, with a ramp between the pairs whose wavelength fits
// beta_slow and beta_fast times into the original context.
struct Yarn {
  double base, factor, original, beta_fast, beta_slow;

  void scale(Rope& rope, double n) const {
    const auto pair_with = [&](double turns) {
      return n * std::log(original / (turns * 2 * M_PI)) / (2 * std::log(base));
    };
    const double low = std::max(0.0, std::floor(pair_with(beta_fast)));
    const double high = std::min(n - 1, std::ceil(pair_with(beta_slow)));
    for (std::size_t i = 0; i < rope.frequencies.size(); ++i) {
      const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
      const double keep = 1.0 - std::clamp(ramp, 0.0, 1.0);
      rope.frequencies[i] *= keep + (1.0 - keep) / factor;
    }
    rope.magnitude = static_cast<float>(1.0 + 0.1 * std::log(factor));
  }
};

}  // namespace

Rope Hparams::rope(kernel::RopePairs pairs, int d) const {
  const auto n = static_cast<int>(integer_or("rope.dimension_count", 0, 1 << 24, d));
  if (n % 2 != 0 || n > d)
    throw Error(Code::kBadInput,
                full("rope.dimension_count") + " is " + std::to_string(n) + ", expected an even number of at most " +
                    std::to_string(d),
                m_.path());
  const double base = number_or("rope.freq_base", 10000.0);
  if (!(base > 1.0))
    throw Error(Code::kBadInput, full("rope.freq_base") + " is " + std::to_string(base) + ", expected more than 1",
                m_.path());
  Rope rope{pairs, {}, 1.0f, {}};
  for (int i = 0; i < n / 2; ++i) rope.frequencies.push_back(std::pow(base, -2.0 * i / n));

  const std::string type = text_or("rope.scaling.type", "none");
  double factor = number_or("rope.scaling.factor", 0.0);
  const bool old_linear = factor == 0.0 && has("rope.scale_linear");  // files from before scaling.type
  if (old_linear) factor = number_or("rope.scale_linear", 1.0);
  if (factor == 0.0) factor = 1.0;
  if (!(factor > 0.0))
    throw Error(Code::kBadInput,
                full("rope.scaling.factor") + " is " + std::to_string(factor) + ", expected more than 0", m_.path());
  if (type == "linear" || (type == "none" && old_linear)) {
    for (double& f : rope.frequencies) f /= factor;
  } else if (type == "yarn") {
    const auto original =
        static_cast<double>(integer_or("rope.scaling.original_context_length", 1, kMostContext, context_));
    Yarn{base, factor, original, number_or("rope.scaling.yarn_beta_fast", 32.0),
         number_or("rope.scaling.yarn_beta_slow", 1.0)}
        .scale(rope, n);
    rope.magnitude *= static_cast<float>(number_or("rope.scaling.attn_factor", 1.0));
  } else if (type != "none") {
    unsupported("rope.scaling.type", "is '" + type + "', expected none, linear or yarn");
  }
  if (has_tensor("rope_freqs.weight")) divide_by_factors(rope);
  return rope;
}

// Llama 3.x: one divisor per frequency.
void Hparams::divide_by_factors(Rope& rope) const {
  const weights::TensorInfo& t = *file_.find("rope_freqs.weight");
  const weights::Quant* quant = find(weights::quants(), t.quant);
  const auto pairs = static_cast<std::int64_t>(rope.frequencies.size());
  if (t.rows() != 1 || t.columns() != pairs || t.columns() % quant->block != 0)
    throw Error(Code::kBadInput,
                t.name + " is " + std::to_string(t.rows()) + "x" + std::to_string(t.columns()) + ", expected " +
                    std::to_string(pairs),
                m_.path());
  std::vector<float> divisors(rope.frequencies.size());
  quant->dequantise(t.bytes.data(), divisors.data(), t.columns());
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    if (!(divisors[i] > 0.0f))
      throw Error(Code::kBadInput, t.name + "[" + std::to_string(i) + "] is not a positive number", m_.path());
    rope.frequencies[i] /= static_cast<double>(divisors[i]);
  }
  rope.factors = {.name = t.name, .columns = pairs};
}

}  // namespace kvasir::model
