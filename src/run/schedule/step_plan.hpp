// What one step computes: the next token of every answer that grows, and slices of the prompts.
#pragma once

#include <cstdint>
#include <vector>

#include "model/forward.hpp"
#include "run/pace.hpp"
#include "run/schedule/sharing.hpp"

namespace kvasir::run {

struct StepPlan {
  std::vector<model::Input> inputs;
  std::vector<Job*> jobs;    // whose they are
  std::int64_t answers = 0;  // of them, the first ones; the others are prompts
  std::int64_t rows = 0;     // of answers: their tokens, and draft tokens behind them
  bool bounded = false;      // by time
  bool reads_rows = false;   // log-probabilities or vectors of prompts are wanted

  void add(Job& job, std::int64_t count);  // the next `count` tokens of a prompt, or those of an answer
  void clear();
  std::int64_t tokens() const;   // of all inputs
  std::int64_t written() const;  // tokens of the answers that grow
};

// Planning changes no job: how a prompt is cut changes no bit of it (law 1).
class StepPlanner {
 public:
  struct Limits {
    std::int32_t running = 8;        // requests
    std::int64_t step_tokens = 256;  // of a step while answers grow
    std::int64_t chunk = 512;        // of a step without answers
    std::int64_t rows = 512;         // that a step can have
    double seconds = 0.2;            // that a step may take while answers grow; 0: any time
  };
  // cache and sharing must outlive this.
  StepPlanner(const kv::Cache& cache, const Sharing& sharing, const Limits& limits);

  // Of those that run; good until the next call.
  const StepPlan& plan(const Jobs& running);
  const StepPlan& last() const { return plan_; }
  void learn(double seconds);  // the last plan took so long

 private:
  void plan_prompts();
  std::int64_t stop_of(const Job& job, std::int64_t most) const;
  double answer_seconds() const;  // of the step, for the answers alone

  const kv::Cache& cache_;
  const Sharing& sharing_;
  const Limits limits_;
  Pace answer_pace_;        // of steps without prompts
  PromptPace prompt_pace_;  // of steps that were bounded by time
  // Of the step; kept, so that a step allocates nothing.
  StepPlan plan_;
  std::vector<Job*> prompts_;  // those with the fewest tokens left first
  std::vector<PromptPace::Slice> slices_;
};

}  // namespace kvasir::run
