// All logits of the golden models' tokens, fed at once, and how far they are from others.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/options.hpp"
#include "run/engine.hpp"

namespace kvasir::testing {

inline const std::string kShipped = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/";

// `weights`: as of EngineOptions.
inline std::vector<float> logits_of(const std::string& model, bool exact, const std::string& weights = "") {
  run::EngineOptions o;
  o.model = model;
  o.weights = weights;
  o.exact = exact;
  o.threads = 2;
  o.ctx = 0;  // what the model was made for
  const auto ids =
      parse_json(read_text_file(kShipped + "tokens.json"), "tokens.json")["tokens"].get<std::vector<std::int32_t>>();
  run::Engine engine(o, {.sequences = 1, .logits = static_cast<int>(ids.size())});
  const auto rows = engine.feed(engine.cache().create(), ids, static_cast<int>(ids.size()));
  return {rows.begin(), rows.end()};
}

// Of vectors, by their norms.
inline double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace kvasir::testing
