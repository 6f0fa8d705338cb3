#include "run/auto_kv.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "model/cache_shape.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::run {
namespace {

double sum_squares(const float* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace

std::optional<kv::AutoChoice> auto_from_weights(const model::Model& model, double budget) {
  const model::ModelSpec& spec = model.spec();
  std::vector<double> gains;
  bool known = true;
  for (const model::LayerSpec& layer : spec.layers) {
    const auto* const mixer = std::get_if<model::Attention>(&layer.mixer);
    if (!mixer) {
      gains.push_back(1);  // of nothing
      continue;
    }
    const model::Attention& a = *mixer;
    const auto by_head = [&](const model::Norm& n) {
      return n && n.kind == model::NormKind::kRms && n.weight && n.width == a.d && n.weight.columns == a.d &&
             n.weight.rows == 1;
    };
    known = known && by_head(a.q_norm) && by_head(a.k_norm);
    if (!known) return {};
    const double scale = a.scale;
    const double magnitude =
        a.rope < 0 || a.norm_after_rope ? 1.0 : spec.ropes[static_cast<std::size_t>(a.rope)].magnitude;
    const double query = magnitude * magnitude * sum_squares(a.q_norm.weight.bound, a.d);
    const double key = magnitude * magnitude * sum_squares(a.k_norm.weight.bound, a.d);
    gains.push_back(scale * scale * query * key / a.d);
  }
  const kv::CacheShape shape = cache_shape(spec);
  kv::AutoChoice choice = kv::choose_codecs(shape, gains, budget);
  choice.source = "from the weights of the norms of queries and keys";
  return choice;
}

kv::AutoChoice auto_from_prompt(model::Forward& forward, kv::Cache& cache, const model::ModelSpec& spec,
                                std::span<const std::int32_t> prompt, int sinks, double budget) {
  const auto look = static_cast<int>(std::min<std::size_t>(prompt.size(), kAutoTokens));
  const kv::CacheShape& shape = cache.shape();
  const auto scale_of = [&](std::size_t layer) {
    const auto* const a = std::get_if<model::Attention>(&spec.layers[layer].mixer);
    return a ? a->scale : 1.0f;
  };
  const float scale = scale_of(0);
  kv::GainMeter meter(shape, scale, sinks);
  kv::Sequence* const sequence = cache.create();
  forward.observe([&](int layer, std::span<const kv::Slice> slices, const float* q, const float* k, const float*) {
    meter.add(layer, kv::Cache::length(*sequence), slices[0].count, q, k);
  });
  for (int done = 0; done < look;) {
    const int n = std::min(forward.max_tokens(), look - done);
    const model::Input input{sequence, prompt.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(n)), 0};
    forward.step({&input, 1});
    done += n;
  }
  forward.observe({});
  cache.release(sequence);

  kv::AutoChoice choice;
  if (meter.tokens() >= kAutoLeastTokens) {
    std::vector<double> gains = meter.gains();              // with the first layer's scale
    for (std::size_t l = 0; l < spec.layers.size(); ++l) {  // behind them are states of convolutions
      const double ratio = scale_of(l) / scale;
      gains[l] *= ratio * ratio;
    }
    choice = kv::choose_codecs(shape, gains, budget);
    choice.source = "from " + std::to_string(meter.tokens()) + " tokens of text";
    return choice;
  }
  choice.layers.assign(shape.layers.size(), {"f16", "f16"});
  choice.budget = budget;
  choice.source = "tokens of text behind the sinks: " + std::to_string(meter.tokens()) + ", the choice needs " +
                  std::to_string(kAutoLeastTokens);
  return choice;
}

}  // namespace kvasir::run
