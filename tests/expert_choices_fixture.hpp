// Golden models with experts: which ones a run chose, and a run that chooses as another did.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "model/spec_fields.hpp"
#include "run/engine.hpp"

namespace kvasir::testing {

struct Outcome {
  std::vector<float> logits;
  std::uint64_t cache = 0;
};

// Experts of every row, layer by layer, and the router's scores where weights jump with them (SparseMixer weighs those
// whose scores are near the best one's).
struct Choices {
  std::vector<std::vector<std::vector<std::int32_t>>> experts;
  std::vector<std::vector<std::vector<float>>> scores;
  void resize(std::size_t layers, std::size_t rows) {
    experts.assign(layers, std::vector<std::vector<std::int32_t>>(rows));
    scores.assign(layers, std::vector<std::vector<float>>(rows));
  }
};

// `choices` gets the experts that were chosen; `forced` says which ones shall be. Of one step.
struct ExpertChoices {
  Choices* choices = nullptr;
  const Choices* forced = nullptr;
};

inline Outcome run_choosing(const std::string& model, const std::vector<std::int32_t>& ids, bool exact,
                            const std::string& weights = "", const ExpertChoices& experts = {}) {
  run::EngineOptions o;
  o.model = model;
  o.weights = weights;
  o.exact = exact;
  o.threads = 2;
  o.ctx = 0;
  run::Engine engine(o, {.sequences = 1, .logits = static_cast<int>(ids.size())});
  std::map<const model::Experts*, std::size_t> number;
  model::for_each<model::Experts>(engine.model().spec(),
                                  [&](const model::Experts& e) { number.emplace(&e, number.size()); });
  if (experts.choices) experts.choices->resize(number.size(), ids.size());
  std::vector<std::vector<std::vector<float>>> biases(number.size(), std::vector<std::vector<float>>(ids.size()));
  model::ExpertHooks hooks;
  if (experts.choices)
    hooks.chosen = [&](const model::Experts& e, std::int64_t row, std::span<const std::int32_t> chosen) {
      experts.choices->experts[number.at(&e)][static_cast<std::size_t>(row)].assign(chosen.begin(), chosen.end());
    };
  if (experts.forced)
    hooks.bias = [&](const model::Experts& e, std::int64_t row) {
      const std::size_t layer = number.at(&e), r = static_cast<std::size_t>(row);
      biases[layer][r].assign(static_cast<std::size_t>(e.routing.count), 0.0f);
      for (const std::int32_t expert : experts.forced->experts[layer][r])
        biases[layer][r][static_cast<std::size_t>(expert)] = 1e6f;
      return biases[layer][r].data();
    };
  hooks.scores = [&](const model::Experts& e, std::int64_t row, float* x) {
    if (e.routing.gating != kvasir::kernel::Gating::kSparseMixer) return;
    const std::size_t layer = number.at(&e), r = static_cast<std::size_t>(row);
    if (experts.choices) experts.choices->scores[layer][r].assign(x, x + e.routing.count);
    if (experts.forced) std::copy_n(experts.forced->scores[layer][r].begin(), e.routing.count, x);
  };
  if (experts.choices || experts.forced) engine.forward().hook_experts(hooks);
  kv::Sequence* s = engine.cache().create();
  const auto rows = engine.feed(s, ids, static_cast<int>(ids.size()));
  return {{rows.begin(), rows.end()}, engine.cache().bytes().digest(*s)};
}

}  // namespace kvasir::testing
