#include "cli/take_sampling.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "run/model_sampling.hpp"

namespace kvasir::cli {

void take_sampling(const run::Engine& engine, run::SamplingOptions& options,
                   const std::function<bool(const std::string& name)>& given) {
  const run::ModelSampling model = run::read_model_sampling(engine.model().file().metadata());
  if (!model.note.empty()) fmt::print(stderr, "kvasir: sampling: {}\n", model.note);
  model.fill(options, given);
}

}  // namespace kvasir::cli
