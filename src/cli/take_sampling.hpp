// What a model's file recommends for sampling, on a command line.
#pragma once

#include <functional>
#include <string>

#include "run/engine.hpp"
#include "run/sampling_options.hpp"

namespace kvasir::cli {

// Fills in what was not given. What the file asks for and is not done is said on standard error.
void take_sampling(const run::Engine& engine, run::SamplingOptions& options,
                   const std::function<bool(const std::string& name)>& given);

}  // namespace kvasir::cli
