#include "run/calibration.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "kv/auto_policy.hpp"
#include "kv/cache.hpp"
#include "kv/feedback.hpp"
#include "model/cache_shape.hpp"
#include "model/forward.hpp"
#include "run/auto_kv.hpp"
#include "text/prompt.hpp"

namespace kvasir::run {
namespace {

// Prose, a list, code, figures, a question: about 500 tokens.
constexpr std::string_view kSample =
    "The harbour wakes before the town does. Long before the first tram rattles down the hill, the boats come in one "
    "by one, their lamps still lit, and the men on the quay read the day's catch from the way the hulls sit in the "
    "water. Nobody speaks much. An old woman sells coffee from a cart that her mother used before her, and whoever "
    "has no money today pays tomorrow; she keeps no book, and it has never been wrong.\n\n"
    "How to repair a bicycle tyre:\n"
    "1. Take the wheel out and let the remaining air escape.\n"
    "2. Lift the tyre over the rim with two levers, and pull out the tube.\n"
    "3. Pump it up, hold it under water, and look for bubbles.\n"
    "4. Roughen the place, spread the glue thinly, wait five minutes, and press the patch on.\n\n"
    "def moving_average(values, width):\n"
    "    if width <= 0 or width > len(values):\n"
    "        raise ValueError(f\"width must be between 1 and {len(values)}, got {width}\")\n"
    "    total = sum(values[:width])\n"
    "    result = [total / width]\n"
    "    for i in range(width, len(values)):\n"
    "        total += values[i] - values[i - width]\n"
    "        result.append(total / width)\n"
    "    return result\n\n"
    "In 1998 the region had 12,480 inhabitants, 3.7 % fewer than ten years earlier; by 2016 there were 14,205. "
    "\"We did not plan this,\" the mayor said when she was asked about it. \"People came because others had come, and "
    "then the school stayed open, and so more people came.\" The railway, closed since 1971, carried passengers "
    "again from May 2019.\n\n"
    "Question: Why does bread rise? Answer: Yeast turns sugar into carbon dioxide and alcohol. The gas cannot leave "
    "the dough, because gluten holds it in small bubbles, so the dough grows. In the oven the bubbles expand once "
    "more until the crust sets.\n";

}  // namespace

std::vector<std::int32_t> calibration_tokens(const text::Tokenizer& tokenizer, std::int64_t most) {
  auto ids = text::encode_prompt(tokenizer, kSample, {.add_bos = tokenizer.add_bos()});
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(most)));
  return ids;
}

model::KeyFacts calibrate(Team& team, const model::Model& model, const text::Tokenizer& tokenizer, int sinks,
                          const model::KeyFacts& known) {
  const model::ModelSpec& spec = model.spec();
  bool tells = false;
  for (int l = 0; l < spec.layer_count(); ++l) tells = tells || has_key_factors(spec, l);
  if (!tells) return known;
  const std::vector<std::int32_t> ids =
      calibration_tokens(tokenizer, std::min<std::int64_t>(kAutoTokens, spec.context));
  const auto tokens = static_cast<int>(ids.size());
  if (tokens < kAutoLeastTokens + sinks) return known;
  const kv::CacheShape shape = cache_shape(spec);
  kv::Cache cache(team, shape, {.max_tokens = tokens, .step_tokens = tokens});
  model::Forward forward(team, model, cache, tokens, 1);
  kv::GainMeter meter(shape, 1, sinks);
  std::vector<std::vector<float>> moments(spec.layers.size());
  forward.observe([&](int layer, std::span<const kv::Slice> slices, const float* q, const float* k, const float*) {
    meter.add(layer, 0, slices[0].count, q, k);
    if (!k || !has_key_factors(spec, layer)) return;
    std::vector<float>& of = moments[static_cast<std::size_t>(layer)];
    of = kv::query_moments(shape.at(layer), slices[0].count, sinks, q);
    average_turns(spec, layer, &of);
  });
  kv::Sequence* const sequence = cache.create();
  const model::Input input{sequence, ids, 0};
  forward.step({&input, 1});
  cache.release(sequence);
  return model::key_facts(spec, meter, std::move(moments), known);
}

}  // namespace kvasir::run
