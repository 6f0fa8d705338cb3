#include "run/auto_kv.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "run/engine.hpp"

namespace kvasir::run {
namespace {

double sum_squares(const float* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace

std::optional<kv::AutoChoice> auto_from_weights(const model::Model& model, double budget) {
  const model::Config& c = model.config();
  const double scale = model::Forward::score_scale(c);
  std::vector<double> gains;
  for (const model::Layer& layer : model.layers()) {
    if (!layer.q_norm || !layer.k_norm) return {};
    const double magnitude = c.rope_magnitude;
    const double query = magnitude * magnitude * sum_squares(layer.q_norm, c.head_dim);
    const double key = magnitude * magnitude * sum_squares(layer.k_norm, c.head_dim);
    gains.push_back(scale * scale * query * key / c.head_dim);
  }
  const kv::CacheShape shape = cache_shape(c);
  kv::AutoChoice choice = kv::choose_codecs(shape, gains, budget);
  choice.source = "from the weights of the norms of queries and keys";
  return choice;
}

kv::AutoChoice auto_from_prompt(model::Forward& forward, kv::Cache& cache, const model::Config& config,
                                std::span<const std::int32_t> prompt, int sinks, double budget) {
  const auto look = static_cast<int>(std::min<std::size_t>(prompt.size(), kAutoTokens));
  const kv::CacheShape& shape = cache.shape();
  kv::GainMeter meter(shape, model::Forward::score_scale(config), sinks);
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
    choice = kv::choose_codecs(shape, meter.gains(), budget);
    choice.source = "from " + std::to_string(meter.tokens()) + " tokens of the first prompt";
    return choice;
  }
  choice.layers.assign(shape.layers.size(), {"f16", "f16"});
  choice.budget = budget;
  choice.source = "tokens of the first prompt behind the sinks: " + std::to_string(meter.tokens()) +
                  ", the choice needs " + std::to_string(kAutoLeastTokens);
  return choice;
}

}  // namespace kvasir::run
