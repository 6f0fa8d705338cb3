// An answer beside a long prompt: how long its tokens wait, how much longer the prompt takes, and how long a short
// prompt waits behind the long one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/options.hpp"
#include "run/engine.hpp"
#include "run/scheduler.hpp"

namespace kvasir::lab {

struct BesideOptions {
  std::int32_t prompt = 7000;  // tokens of the long one
  std::int32_t tokens = 30;    // of an answer
  std::int32_t shorter = 64;   // tokens of the answers' prompts, and of the short one
  std::int32_t answers = 1;    // one after the other while the long prompt is computed; 0: as many as it takes
  std::int32_t runs = 3;
};
const OptionTable<BesideOptions>& beside_table();

// Seconds. Every prompt is made of other tokens, so nothing is known before.
struct BesideRun {
  double alone = 0, beside = 0;              // of the long prompt, to its first token: alone, and beside answers
  double short_alone = 0, short_behind = 0;  // of the short one: alone, and sent when the long one has begun
  std::vector<float> gaps_alone, gaps;       // between an answer's tokens: alone, and while the long prompt is computed
};

// REQUIRES: an engine for two sequences at least, with room for the long prompt and two short ones. poll(done, total)
// is called before every measurement; false ends the run with what there is. Throws Error as the scheduler does.
std::vector<BesideRun> measure_beside(run::Engine& engine, const run::SchedulerOptions& scheduler,
                                      const BesideOptions& options,
                                      const std::function<bool(std::int64_t done, std::int64_t total)>& poll);

}  // namespace kvasir::lab
