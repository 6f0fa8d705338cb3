// Rotary frequencies as files describe them.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/hparams.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

constexpr std::int64_t kMostContext = std::int64_t{1} << 30;
constexpr double kBase = 10000;

// Low frequencies are interpolated by `factor`, high ones kept, with a ramp between the pairs whose wavelength fits
// beta_slow and beta_fast times into the original context.
struct Yarn {
  double base, factor, original, beta_fast, beta_slow;
  bool whole;  // the ramp begins and ends at a pair

  void scale(Rope& rope, double n) const {
    const auto pair_with = [&](double turns) {
      return n * std::log(original / (turns * 2 * M_PI)) / (2 * std::log(base));
    };
    const double first = pair_with(beta_fast), last = pair_with(beta_slow);
    const double low = std::max(0.0, whole ? std::floor(first) : first);
    const double high = std::min(n - 1, whole ? std::ceil(last) : last);
    for (std::size_t i = 0; i < rope.frequencies.size(); ++i) {
      const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
      const double keep = 1.0 - std::clamp(ramp, 0.0, 1.0);
      rope.frequencies[i] *= keep + (1.0 - keep) / factor;
    }
    rope.magnitude = static_cast<float>(1.0 + 0.1 * std::log(factor));
  }
};

void scale(const Hparams& h, Rope& rope, bool whole) {
  const std::string type = h.text_or("rope.scaling.type", "linear");
  double factor = h.number_or("rope.scaling.factor", 0.0);
  if (factor == 0.0) factor = h.number_or("rope.scale_linear", 1.0);  // files from before scaling.type
  if (!(factor > 0.0)) h.bad("rope.scaling.factor", "is " + std::to_string(factor) + ", expected more than 0");
  if (type == "linear") {
    for (double& f : rope.frequencies) f /= factor;
  } else if (type == "yarn") {
    const auto original =
        static_cast<double>(h.integer_or("rope.scaling.original_context_length", 1, kMostContext, h.context()));
    Yarn{h.number_or("rope.freq_base", kBase),
         factor,
         original,
         h.number_or("rope.scaling.yarn_beta_fast", 32.0),
         h.number_or("rope.scaling.yarn_beta_slow", 1.0),
         h.flag_or("rope.scaling.yarn_truncate", whole)}
        .scale(rope, 2.0 * static_cast<double>(rope.frequencies.size()));
    // In place of 1 + 0.1 ln(factor).
    if (h.has(Hparams::kYarnMagnitude)) rope.magnitude = static_cast<float>(h.number(Hparams::kYarnMagnitude));
  } else if (type != "none" && !(type == "longrope" && h.has_tensor("rope_factors_long.weight"))) {
    h.unsupported("rope.scaling.type",
                  "is '" + type + "', expected none, linear or yarn, or longrope with its factors");
  }
}

// One positive number per frequency, which `rope` is divided by, if there is one.
Vector divisors(const weights::TensorInfo& t, Rope* rope, const std::string& path) {
  const weights::Quant* quant = find(weights::quants(), t.quant);
  const std::int64_t n = t.columns();
  const auto pairs = rope ? static_cast<std::int64_t>(rope->frequencies.size()) : n;
  if (t.rows() != 1 || n != pairs || n % quant->block != 0)
    throw Error(
        Code::kBadInput,
        t.name + " is " + std::to_string(t.rows()) + "x" + std::to_string(n) + ", expected " + std::to_string(pairs),
        path);
  std::vector<float> values(static_cast<std::size_t>(n));
  quant->dequantise(t.bytes.data(), values.data(), n);
  for (std::size_t i = 0; i < values.size() && rope; ++i) {
    if (!(values[i] > 0.0f))
      throw Error(Code::kBadInput, t.name + "[" + std::to_string(i) + "] is not a positive number", path);
    rope->frequencies[i] /= static_cast<double>(values[i]);
  }
  return {.name = t.name, .columns = n};
}

}  // namespace

Rope Hparams::plain_rope(kernel::RopePairs pairs, int d, double base) const {
  const auto n = static_cast<int>(integer_or("rope.dimension_count", 0, 1 << 24, d));
  if (n % 2 != 0 || n > d)
    bad("rope.dimension_count",
        "is " + std::to_string(n) + ", expected an even number of at most " + std::to_string(d));
  if (base == 0) base = number_or("rope.freq_base", kBase);
  if (!(base > 1.0)) bad("rope.freq_base", "is " + std::to_string(base) + ", expected more than 1");
  Rope rope{.pairs = pairs};
  for (int i = 0; i < n / 2; ++i) rope.frequencies.push_back(std::pow(base, -2.0 * i / n));
  return rope;
}

Rope Hparams::rope(kernel::RopePairs pairs, int d, bool whole) const {
  Rope rope = plain_rope(pairs, d);
  scale(*this, rope, whole);
  rope.magnitude *= static_cast<float>(number_or("rope.scaling.attn_factor", 1.0));
  rope.most = integer_or("rope.most_positions", 1, kMostContext, 0);  // which folders alone say
  const auto factors = [&](const char* name, Rope* of) { return divisors(*file_.find(name), of, metadata().path()); };
  constexpr const char *kShort = "rope_factors_short.weight", *kLong = "rope_factors_long.weight";
  if (has_tensor("rope_freqs.weight")) {
    rope.factors.push_back(factors("rope_freqs.weight", &rope));
  } else if (has_tensor(kShort) && has_tensor(kLong)) {
    const bool is_long = tokens_ > integer_or("rope.scaling.original_context_length", 1, kMostContext, context_);
    rope.factors.push_back(factors(is_long ? kLong : kShort, &rope));
    rope.factors.push_back(factors(is_long ? kShort : kLong, nullptr));
  }
  return rope;
}

Rope Hparams::rope_of_places(int d, bool interleaved) const {
  Rope r = rope(kernel::RopePairs::kSplitHalf, d);
  constexpr const char* kSections = "rope.dimension_sections";
  const std::vector<std::int64_t>* const sections = metadata().get_ints(full(kSections));
  if (!sections) return r;
  const auto pairs = static_cast<std::int64_t>(r.frequencies.size());
  const auto wrong = [](std::int64_t n) { return n < 0 || n > (1 << 24); };
  if (sections->size() < 3 || std::any_of(sections->begin(), sections->end(), wrong))
    bad(kSections, "are no three or four numbers of pairs");
  for (int axis = 0; axis < 3 && !interleaved; ++axis)
    r.axes.insert(r.axes.end(), static_cast<std::size_t>((*sections)[static_cast<std::size_t>(axis)]), axis);
  for (std::int64_t i = 0; i < pairs && interleaved; ++i)
    r.axes.push_back(i / 3 < (*sections)[static_cast<std::size_t>(i % 3)] ? static_cast<int>(i % 3) : 0);
  if (r.axes.size() != r.frequencies.size())
    bad(kSections, "are of " + std::to_string(r.axes.size()) + " pairs, expected " + std::to_string(pairs));
  return r;
}

}  // namespace kvasir::model
