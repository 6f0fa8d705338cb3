// One step of the engine for the requests that run: plan, compute, and what becomes of every row of logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "run/schedule/admission.hpp"
#include "run/schedule/lifecycle.hpp"

namespace kvasir::run {

class Step {
 public:
  // All must outlive this.
  Step(Engine& engine, Admission& admission, Sharing& sharing, Reuse& reuse, Speculation& speculation,
       AwaitedRows& rows, StepPlanner& planner, Lifecycle& lifecycle, SharedState& shared)
      : engine_(engine),
        admission_(admission),
        sharing_(sharing),
        reuse_(reuse),
        speculation_(speculation),
        rows_(rows),
        planner_(planner),
        lifecycle_(lifecycle),
        shared_(shared) {}

  void run();

 private:
  bool compute();
  bool preempt_for(const std::string& why);
  void lose(const std::string& why);
  void learn(const StepPlan& plan, double seconds);
  void account(Job& job, const model::Input& input, double now);
  void advance(Job& job, std::span<const float> row);
  void go_on(Job& job, bool more);
  void read_rows(const StepPlan& plan);
  void pool(Job& job, int row, std::int64_t count);
  void score(Job& job, int row, std::int64_t first, std::int64_t count);

  Engine& engine_;
  Admission& admission_;
  Sharing& sharing_;
  Reuse& reuse_;
  Speculation& speculation_;
  AwaitedRows& rows_;
  StepPlanner& planner_;
  Lifecycle& lifecycle_;
  SharedState& shared_;
  double start_ = 0;               // of the model's part of the step
  std::span<const float> logits_;  // what it gave
};

}  // namespace kvasir::run
