// What fits in a memory: the longest context of a model by how its cache is stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "run/engine.hpp"

namespace kvasir::cli {

struct Fit {
  std::string kv;              // preset, or what the options name
  std::int64_t context = 0;    // tokens of one sequence, in whole pages; 0: not one page fits
  bool limited = false;        // by the model's positions, or the most that --ctx takes, and not by memory
  double bytes_per_token = 0;  // of the cache
};

struct Fits {
  std::string model;
  std::int64_t weight_bytes = 0;  // in memory
  std::int64_t trained = 0;       // tokens of the longest text that the model was made for
  std::vector<Fit> caches;        // f16 first, the others by falling bytes per token
};

// `memory`: bytes for weights, cache, scratch and the program (run::kProgramBytes). Without codecs in `options` every
// preset that stores the model's heads. Reads the file's header alone. Throws Error as run::plan_engine.
Fits what_fits(const std::string& path, const run::EngineOptions& options, std::int64_t memory);

// One model in full; of several a table with a row for each. `memory` as it was asked for.
void print_fits(const std::vector<Fits>& models, const std::string& memory);
void print_fits_json(const std::vector<Fits>& models, std::int64_t memory);

}  // namespace kvasir::cli
